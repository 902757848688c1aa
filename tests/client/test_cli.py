"""The command line: acting on workloads, signing in, and what all commands share."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Weft
from tests.client.scripted import Answer, Scripted, created, page, problem, workload

HELLO = workload()
AT = f"/workloads/{HELLO['uid']}"
FLAGS = ("submit", "training", "--name", "hello", "--team", "nlp", "--image", "example/train:1", "--gpus", "1")


# --- acting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "phase"), [("suspend", "Suspending"), ("resume", "Queued"), ("requeue", "Checkpointing")]
)
def test_verbs_are_sent_and_told(signed_in: Scripted, weft: Weft, verb: str, phase: str) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("POST", f"{AT}/{verb}", workload(phase=phase))
    ran = weft(verb, "nlp/hello")
    assert (ran.code, ran.out) == (0, f"nlp/hello is {phase}.\n")


def test_extending_says_how_long_a_notebook_stays(signed_in: Scripted, weft: Weft) -> None:
    explore = workload("explore", type="notebook")
    at = f"/notebooks/{explore['uid']}/extend"
    signed_in.on("GET", "/workloads", page(explore))
    signed_in.on("POST", at, {"idle_since": None, "park_after_seconds": 5400.0, "parks_at": None})
    ran = weft("extend", "explore")
    assert (ran.code, ran.out) == (0, "nlp/explore may be idle for another 1h30m.\n")


def test_of_a_list_that_is_not_all_notebooks_none_is_extended(signed_in: Scripted, weft: Weft) -> None:
    explore = workload("explore", type="notebook")
    signed_in.on("GET", "/workloads", page(explore), page(HELLO))
    ran = weft("extend", "explore", "hello")
    assert (ran.code, ran.out) == (1, "")
    assert "nlp/hello is of type training. Only a notebook is parked" in ran.err
    assert not signed_in.sent("POST", f"/notebooks/{explore['uid']}/extend")


def test_stop_without_a_terminal_does_not_ask(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, HELLO)
    signed_in.on("POST", f"{AT}/stop", workload(phase="Stopping"))
    assert weft("stop", "hello").out == "nlp/hello is Stopping.\n"


def test_stopping_what_has_ended_is_no_error(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", AT, workload(phase="Succeeded"))
    ran = weft("stop", str(HELLO["uid"]))
    assert (ran.code, ran.out) == (0, "nlp/hello has already ended: Succeeded.\n")


def test_a_wrong_name_among_several_stops_nothing(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO), page(), page())
    signed_in.on("GET", AT, HELLO)
    ran = weft("stop", "hello", "wrong")
    assert ran.code == 1
    assert "There is no workload wrong" in ran.err
    assert not signed_in.sent("POST", f"{AT}/stop")


RESOURCES = {"gpus": 1, "cpu": "4", "memory": "32Gi", "gpu_model": ["A100"]}


def test_a_resize_changes_what_is_named_and_says_what_goes_on(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, workload(spec={"resources": RESOURCES}, version=7))
    signed_in.on("PATCH", AT, workload(resize={"cpu_milli": 8000, "memory_mib": 32_768}))
    ran = weft("resize", "nlp/hello", "--cpu", "8")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("nlp/hello: each worker is being given 8 cores and 32 GiB.")
    (sent,) = signed_in.sent("PATCH", AT)
    assert sent.body == {"resources": {**RESOURCES, "cpu": "8"}}
    assert sent.headers["if-match"] == '"7"'


def test_a_resize_of_what_waits_is_done_at_once_and_one_of_nothing_is_refused(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, workload(spec={"resources": RESOURCES}))
    signed_in.on("PATCH", AT, workload(resources={"cpu_milli": 500, "memory_mib": 512}))
    assert (
        weft("resize", "hello", "--memory", "512Mi").out
        == "nlp/hello asks for 0.5 cores and 512 MiB for each worker.\n"
    )
    assert weft("resize", "hello").code == 2


CHAT = workload("chat", type="inference")
SERVICE = f"/inferences/{CHAT['uid']}"


def revisions(wanted: int, **rollout: object) -> dict[str, object]:
    made = {"made_by": "mel", "failed": "", "placed": 2, "ready": 1}
    rows = [{"number": n, "image": f"example/chat:{n}", "is_wanted": n == wanted, **made} for n in (2, 1)]
    began = {"to": wanted, "before": 3 - wanted, "ready": 1, "of": 2, "is_back": False, "message": "", **rollout}
    return {"uid": CHAT["uid"], "revision": wanted, "rollout": began, "revisions": rows}


def test_a_change_sends_what_is_named_and_says_how_far_it_is(signed_in: Scripted, weft: Weft) -> None:
    spec = {"env": {"A": "1", "B": "2"}, "objective": {"p95_latency": "200ms", "availability": 99.0}}
    signed_in.on("GET", "/workloads", page(CHAT))
    signed_in.on("GET", f"/workloads/{CHAT['uid']}", workload("chat", type="inference", spec=spec, version=7))
    signed_in.on("PATCH", f"/workloads/{CHAT['uid']}", CHAT)
    signed_in.on("GET", f"{SERVICE}/revisions", revisions(2))
    ran = weft("change", "chat", "--image", "example/chat:2", "--env", "A=3", "--env", "B-", "--latency", "300ms")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "nlp/chat: image, env, objective changed.",
        "nlp/chat: revision 2 replaces revision 1: 1 of 2 replicas.",
    ]
    (sent,) = signed_in.sent("PATCH", f"/workloads/{CHAT['uid']}")
    assert sent.body == {
        "image": "example/chat:2",
        "env": {"A": "3"},
        "objective": {"p95_latency": "300ms", "availability": 99.0},
    }
    assert weft("change", "chat", "--first-token", "500ms").code == 0
    assert signed_in.sent("PATCH", f"/workloads/{CHAT['uid']}")[1].body == {
        "objective": {"p95_first_token": "500ms", "availability": 99.0}
    }
    assert weft("change", "chat", "--availability", "99.9").code == 0
    assert signed_in.sent("PATCH", f"/workloads/{CHAT['uid']}")[2].body == {
        "objective": {"p95_latency": "200ms", "availability": 99.9}
    }
    assert weft("change", "chat").code == 2
    assert weft("change", "chat", "--env", "B").code == 2
    assert weft("change", "chat", "--latency", "1s", "--first-token", "1s").code == 2


def test_a_change_of_a_service_that_changes_meanwhile_is_added_to_what_it_is_then(
    signed_in: Scripted, weft: Weft
) -> None:
    first, second = (
        workload("chat", type="inference", spec={"env": env}, version=version)
        for env, version in (({"A": "1"}, 7), ({"A": "1", "NEW": "2"}, 8))
    )
    refused = problem(412, "VersionChanged", ("version", "chat has changed: its version is 8, not 7. Read it again."))
    signed_in.on("GET", "/workloads", page(CHAT))
    signed_in.on("GET", f"/workloads/{CHAT['uid']}", first, second)
    signed_in.on("PATCH", f"/workloads/{CHAT['uid']}", refused, CHAT)
    signed_in.on("GET", f"{SERVICE}/revisions", revisions(2))
    ran = weft("change", "chat", "--env", "A=3")
    assert (ran.code, ran.err) == (0, "")
    assert [one.body for one in signed_in.sent("PATCH", f"/workloads/{CHAT['uid']}")] == [
        {"env": {"A": "3"}},
        {"env": {"A": "3", "NEW": "2"}},
    ]
    signed_in.on("GET", f"/workloads/{CHAT['uid']}", second)
    signed_in.on("PATCH", f"/workloads/{CHAT['uid']}", refused)
    assert weft("change", "chat", "--env", "A=3").code == 1


def test_a_canary_is_begun_told_of_and_promoted(signed_in: Scripted, weft: Weft) -> None:
    spec = {"rollout": {"deadline": "5m", "weight": 10}}
    began = {"is_canary": True, "weight": 10, "percent": 10, "of": 1, "judged_by": "requests"}
    counts = {"own_requests": 340, "own_over": 12, "before_requests": 3000, "before_over": 9}
    signed_in.on("GET", "/workloads", page(CHAT))
    signed_in.on("GET", f"/workloads/{CHAT['uid']}", workload("chat", type="inference", spec=spec, version=7))
    signed_in.on("PATCH", f"/workloads/{CHAT['uid']}", CHAT)
    canary = revisions(2, **began, **counts)
    signed_in.on("GET", f"{SERVICE}/revisions", canary)
    ran = weft("change", "chat", "--image", "example/chat:2", "--weight", "10")
    assert ran.out.splitlines()[1] == (
        "nlp/chat: revision 2 gets 10 % of the requests, beside revision 1: 1 of 1 replica; "
        "12 of its 340 requests late or failed."
    )
    ran = weft("promote", "chat")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "nlp/chat: revision 2 is promoted.")
    sent = [one.body for one in signed_in.sent("PATCH", f"/workloads/{CHAT['uid']}")]
    weights = [{"deadline": "5m", "weight": weight} for weight in (10, 100)]
    assert sent == [{"image": "example/chat:2", "rollout": weights[0]}, {"rollout": weights[1]}]
    assert weft("change", "chat", "--weight", "0").code == 2
    signed_in.on("GET", f"{SERVICE}/revisions", revisions(2))
    ran = weft("promote", "chat")
    assert (ran.code, "has no revision to promote" in ran.err) == (1, True)


def test_a_canary_with_steps_is_begun_and_says_what_comes_next(signed_in: Scripted, weft: Weft) -> None:
    spec = {"rollout": {"deadline": "5m", "weight": 10}}
    began = {"is_canary": True, "weight": 5, "percent": 5, "of": 1, "judged_by": "nothing"}
    follows = {"next_weight": 25, "next_at": "2026-01-01T00:10:00Z", "held": "Each step lasts 15 minutes."}
    signed_in.on("GET", "/workloads", page(CHAT))
    signed_in.on("GET", f"/workloads/{CHAT['uid']}", workload("chat", type="inference", spec=spec, version=7))
    signed_in.on("PATCH", f"/workloads/{CHAT['uid']}", CHAT)
    signed_in.on("GET", f"{SERVICE}/revisions", revisions(2, **began, **follows))
    ran = weft("change", "chat", "--image", "example/chat:2", "--steps", "5, 25", "--step-minutes", "15")
    told = "; next at 2026-01-01T00:10:00Z at the soonest: 25 % (Each step lasts 15 minutes.)."
    assert (ran.code, ran.out.splitlines()[1].endswith(told)) == (0, True)
    (sent,) = [one.body for one in signed_in.sent("PATCH", f"/workloads/{CHAT['uid']}")]
    assert sent["rollout"] == {"deadline": "5m", "steps": [5, 25], "step_minutes": 15}
    for wrong in (("--steps", "5,half"), ("--steps", "5", "--weight", "5"), ("--step-minutes", "5")):
        assert weft("change", "chat", *wrong).code == 2


def test_a_diagnosis_is_told_with_its_evidence_and_of_trainings_only(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    evidence = [{"bottleneck": "input_cpu", "removable": 0.38, "strength": 1.0, "lately": [0.01, 0.4, 1.0]}]
    restart = {"seconds": 74.4, "leave_seconds": 12.2, "begin_seconds": 62.2, "own": 2, "lent": 1}
    found = {"bottleneck": "input_cpu", "message": "Its steps wait.", "evidence": evidence, "levels": {"cpu": 0.97},
             "slow_worker": {"rank": 3, "node": "a-07"}, "restart": restart}  # fmt: skip
    signed_in.on("GET", f"/trainings/{HELLO['uid']}/diagnosis", found)
    change = {"message": "4 cores instead of 1", "status": "rolled_back", "expected": 0.65, "gain": None}
    tried = {"recommended": ["8 cores instead of 4"], "experiments": [change]}
    signed_in.on("GET", f"/trainings/{HELLO['uid']}/experiments", tried)
    lines = weft("diagnose", "nlp/hello").out.splitlines()
    assert lines[:3] == ["nlp/hello: input_cpu", "  Its steps wait.", "  Worker 3 is on a-07."]
    assert [line.split() for line in lines[4:6]][1] == ["input_cpu", "38%", "▁▄█", "100%"]
    assert "CPU of its workers:  97%" in lines
    parts = "12 s to leave, 62 s to its first step; learned from 2 of its own and 1 of trainings like it."
    assert f"A restart is taken to cost 74 s: {parts}" in lines
    assert lines[-5:-3] == ["What would make it faster:", "  8 cores instead of 4"]
    assert lines[-1].split() == ["4", "cores", "instead", "of", "1", "rolled", "back", "+65%", "-"]
    assert json.loads(weft("diagnose", "nlp/hello", "-o", "json").out) == {**found, "tried": tried}
    signed_in.on("POST", f"/trainings/{HELLO['uid']}/experiments/take-back", {"recommended": [], "experiments": []})
    assert weft("rollback", "nlp/hello").out.splitlines() == ["The newest change of nlp/hello is taken back."]
    signed_in.on("PATCH", "/teams/nlp", {"name": "nlp", "reallocation": "automatic"})
    assert weft("reallocation", "nlp", "automatic").out.splitlines() == ["Reallocation of trainings of nlp: automatic."]
    assert [one.body for one in signed_in.sent("PATCH", "/teams/nlp")] == [{"reallocation": "automatic"}]
    signed_in.on("GET", f"/trainings/{HELLO['uid']}/experiments", {"recommended": [], "experiments": []})
    silent = {"bottleneck": None, "message": "Its program reports no steps.", "evidence": [], "levels": None}
    silent["restart"] = {"seconds": 120.0, "leave_seconds": 20.0, "begin_seconds": 100.0, "own": 0, "lent": 0}
    signed_in.on("GET", f"/trainings/{HELLO['uid']}/diagnosis", silent)
    assert weft("diagnose", "hello").out.splitlines() == [
        "nlp/hello: not known",
        "  Its program reports no steps.",
        "",
        "A restart is taken to cost 120 s: 20 s to leave, 100 s to its first step; not measured yet.",
    ]
    points = [{"workers": n, "speed": n, "low": n, "high": n, "measured": None, "goodput": None} for n in (1, 2)]
    signed_in.on("GET", f"/trainings/{HELLO['uid']}/diagnosis", {**silent, "scaling_curve": points})
    told = [line.split() for line in weft("diagnose", "hello").out.splitlines()[3:6]]
    assert told[0] == ["WORKERS", "SPEED", "95", "%", "MEASURED"]
    points = [{**one, "goodput": goodput} for one, goodput in zip(points, (1.0, 1.333), strict=True)]
    signed_in.on("GET", f"/trainings/{HELLO['uid']}/diagnosis", {**silent, "scaling_curve": points})
    told = [line.split() for line in weft("diagnose", "hello").out.splitlines()[3:6]]
    assert [line[-2:] for line in told] == [["MEASURED", "GOODPUT"], ["1.00", "x"], ["1.33", "x"]]
    batch = {"size": 128, "named": 64, "min": 32, "max": 256, "gradient_noise": None, "curve": []}
    point = {"examples": 256, "goodput": 1.2, "low": 1.1, "high": 1.31, "speed": 1.4, "measured": None}
    now = "Its batch is 128 instead of the 64 of its job file; 32 to 256 are allowed, and its"
    table = ["BATCH  GOODPUT  95 %          MEASURED   SPEED", "  256   1.20 x  1.10 to 1.31         -  1.40 x"]
    for changed, lines in (
        (batch, [f"{now} program reports no gradient noise."]),
        ({**batch, "size": 64, "min": 64, "max": 64}, ["Its batch is 64, and fixed."]),
        ({**batch, "gradient_noise": 812.4, "curve": [point]}, [f"{now} gradient noise is 812 examples.", "", *table]),
    ):
        signed_in.on("GET", f"/trainings/{HELLO['uid']}/diagnosis", {**silent, "batch": changed})
        told = weft("diagnose", "hello").out.splitlines()[3:]
        assert [line.split() for line in told[: len(lines)]] == [line.split() for line in lines]
    signed_in.on("GET", "/workloads", page(CHAT))
    refused = weft("diagnose", "chat")
    assert refused.code == 2
    assert "nlp/chat is no training" in refused.err


def test_revisions_are_listed_and_undone(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(CHAT))
    signed_in.on("GET", f"{SERVICE}/revisions", revisions(2))
    signed_in.on("POST", f"{SERVICE}/rollback", revisions(1, is_back=True, message="It was undone."))
    listed = weft("revisions", "nlp/chat").out.splitlines()
    assert [line.split()[0] for line in listed[:3]] == ["REVISION", "2", "1"]
    assert "example/chat:2" in listed[1]
    ran = weft("rollback", "nlp/chat", "--to", "1")
    assert ran.out.splitlines() == [
        "nlp/chat goes back to revision 1.",
        "nlp/chat: revision 1 replaces revision 2 again: 1 of 2 replicas (It was undone.).",
    ]
    (sent,) = signed_in.sent("POST", f"{SERVICE}/rollback")
    assert sent.body == {"to": 1}


# --- signing in ------------------------------------------------------------------------------


def me(**more: object) -> dict[str, object]:
    return {"username": "mel", "is_platform_admin": False, "teams": [{"team": "nlp", "role": "member"}], **more}


def test_the_token_in_use_can_be_given_to_other_tools(signed_in: Scripted, weft: Weft) -> None:
    assert weft("token").out == "weft_secret\n"


def test_who_is_not_signed_in_has_no_token_to_print(weft: Weft, shell: Path) -> None:
    done = weft("token")
    assert done.code == 1
    assert "Sign in with `weft login URL`" in done.err


def test_login_keeps_the_token_for_later_commands(server: Scripted, weft: Weft, shell: Path) -> None:
    server.on("GET", "/me", me())
    server.on("GET", "/workloads", page(HELLO))
    server.on("POST", "/workloads", created(HELLO))
    ran = weft("login", f"{server.url}/", "--token", "weft_abc")
    assert (ran.code, ran.out) == (0, f"Signed in to {server.url} as mel (member of nlp).\n")
    assert (shell / "config" / "weft" / "config.json").stat().st_mode & 0o777 == 0o600
    assert weft("get", "-o", "name").out == "nlp/hello\n"
    assert server.requests[-1].headers["authorization"] == "Bearer weft_abc"
    weft("submit", "training", "--name", "hello")
    assert server.requests[-1].body["team"] == "nlp"  # the only one


def test_a_wrong_token_is_not_kept(server: Scripted, weft: Weft, shell: Path) -> None:
    server.on("GET", "/me", problem(401, "NotSignedIn", ("", "The token is unknown or has expired.")))
    ran = weft("login", server.url, "--token", "weft_abc")
    assert ran.code == 1
    assert ran.err.splitlines()[0] == "error: The token is unknown or has expired."
    assert not (shell / "config").exists()


def test_logout_makes_the_token_invalid_and_forgets_it(server: Scripted, weft: Weft, shell: Path) -> None:
    token = {"id": 7, "name": "cli", "prefix": "weft_AbC1", "expires_at": "2026-04-01T00:00:00Z"}
    server.on("GET", "/me", me(token=token))
    server.on("DELETE", "/tokens/7", Answer(b"", 204))
    weft("login", server.url, "--token", "weft_abc")
    assert weft("logout").code == 0
    assert server.sent("DELETE", "/tokens/7")
    assert "weft_abc" not in (shell / "config" / "weft" / "config.json").read_text()
    assert weft("logout").out == "You are not signed in.\n"


def test_without_a_server_the_error_says_how_to_sign_in(weft: Weft) -> None:
    ran = weft("get")
    assert ran.code == 1
    assert ran.err == "error: No server is known. Sign in with `weft login URL`, or set WEFT_URL and WEFT_TOKEN.\n"


def test_without_a_terminal_no_password_is_asked_for(server: Scripted, weft: Weft) -> None:
    ran = weft("login", server.url, "--username", "mel")
    assert ran.code == 1
    assert "There is no terminal to ask on. Give --token, or --password-stdin." in ran.err


def test_global_flags_may_stand_anywhere(server: Scripted, weft: Weft) -> None:
    server.on("GET", "/me", me())
    for arguments in (("--url", server.url, "whoami"), ("whoami", f"--url={server.url}", "-o", "name")):
        assert weft(*arguments, "--token", "weft_flag").code == 0
        assert server.requests[-1].headers["authorization"] == "Bearer weft_flag"


def test_the_command_of_a_job_keeps_its_own_flags(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    weft(*FLAGS, "--", "run", "--token", "abc", "--url", "x")
    assert signed_in.requests[-1].body["command"] == ["run", "--token", "abc", "--url", "x"]


def test_the_slow_workers_of_a_node_are_listed(signed_in: Scripted, weft: Weft) -> None:
    one = {"uid": None, "team": "nlp", "name": "", "attempt": 1, "rank": 3, "named_at": "2026-01-01T00:00:00Z",
           "part": 0.25}  # fmt: skip
    rows = {"node": "a", "trainings": [one | {"name": "fit"}, one]}
    signed_in.on("GET", "/nodes/a/slow-workers", rows)
    lines = weft("stragglers", "a").out.splitlines()
    assert [line.split()[:1] for line in lines] == [["TRAINING"], ["nlp/fit"], ["team"]]
    assert lines[1].split()[1:3] == ["3", "25%"]
    assert json.loads(weft("stragglers", "a", "-o", "json").out) == rows
    signed_in.on("GET", "/nodes/a/slow-workers", {"node": "a", "trainings": []})
    assert weft("stragglers", "a").out.splitlines() == ["No worker on a was named as slow."]
