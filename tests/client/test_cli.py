"""The command line: what it sends, prints and exits with."""

import json
from pathlib import Path

import pytest
import yaml

from tests.client.conftest import Weft
from tests.client.scripted import Answer, Scripted, page, problem, workload

HELLO = workload()
AT = f"/workloads/{HELLO['uid']}"
FLAGS = ("submit", "training", "--name", "hello", "--team", "nlp", "--image", "example/train:1", "--gpus", "1")


def created(*documents: dict[str, object]) -> Answer:
    return Answer(documents[0] if len(documents) == 1 else {"results": list(documents)}, 201)


# --- submit ----------------------------------------------------------------------------------


def test_flags_become_the_short_form_of_the_job_file(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    ran = weft(
        *FLAGS, "--workers", "4", "--min", "2", "-e", "EPOCHS=3", "-e", "A=b=c", "--", "python", "train.py", "-v"
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"nlp/hello submitted: Queued ({HELLO['uid']})\n"
    assert signed_in.requests[-1].body == {
        "type": "training",
        "name": "hello",
        "team": "nlp",
        "image": "example/train:1",
        "command": ["python", "train.py", "-v"],
        "env": {"EPOCHS": "3", "A": "b=c"},
        "workers": {"count": 4, "min": 2},
        "resources": {"gpus": 1},
    }


def test_a_service_gets_replicas_and_a_share(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    weft(
        "submit", "inference", "--name", "chat", "--min", "1", "--max", "6", "--gpu-share", "0.5", "--gpu-memory", "8Gi"
    )
    assert signed_in.requests[-1].body == {
        "type": "inference",
        "name": "chat",
        "replicas": {"min": 1, "max": 6},
        "resources": {"gpu_share": {"guarantee": 0.5, "memory": "8Gi"}},
    }


def test_the_team_comes_from_the_environment_where_none_is_named(
    signed_in: Scripted, weft: Weft, shell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_TEAM", "vision")
    signed_in.on("POST", "/workloads:batch", created(HELLO, HELLO))
    (shell / "jobs.yaml").write_text("name: a\n---\nname: b\nteam: nlp\n")
    assert weft("submit", "-f", "jobs.yaml").code == 0
    assert [one["team"] for one in signed_in.requests[-1].body] == ["vision", "nlp"]


def test_several_documents_are_one_batch(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    (shell / "a.yaml").write_text("type: training\nname: prepare\n---\ntype: training\nname: train\nafter: [prepare]\n")
    (shell / "b.yaml").write_text("type: inference\nname: serve\n")
    signed_in.on("POST", "/workloads:batch", created(*(workload(name) for name in ("prepare", "train", "serve"))))
    ran = weft("submit", "-f", "a.yaml", "-f", "b.yaml", "-o", "name")
    assert ran.out == "nlp/prepare\nnlp/train\nnlp/serve\n"
    assert [one["name"] for one in signed_in.requests[-1].body] == ["prepare", "train", "serve"]


def test_a_fault_that_the_server_finds_names_file_and_line(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    (shell / "jobs.yaml").write_text("name: a\n---\nname: b\nworkers:\n  min: 9\n  max: 8\nimage: x\n")
    message = "workers.min is 9 but workers.max is 8. Set min to at most 8."
    signed_in.on(
        "POST",
        "/workloads:batch",
        problem(400, "Invalid", ("1.workers.min", message), ("1.image", "Give registry/name:tag.")),
    )
    ran = weft("submit", "-f", "jobs.yaml")
    assert ran.code == 1
    assert ran.err == f"error: jobs.yaml:5: {message}\nerror: jobs.yaml:7: image: Give registry/name:tag.\n"
    assert ran.out == ""


def test_a_fault_of_the_only_document_names_its_line(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    (shell / "job.yaml").write_text("name: a\nimage: X\n")
    signed_in.on("POST", "/workloads", problem(400, "Invalid", ("image", "image must be in lower case.")))
    assert weft("submit", "-f", "job.yaml").err == "error: job.yaml:2: image must be in lower case.\n"


def test_a_file_that_is_no_job_file_is_not_sent(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    (shell / "job.yaml").write_text("name: a\nname: b\n")
    ran = weft("submit", "-f", "job.yaml")
    assert (ran.code, signed_in.requests) == (1, [])
    assert ran.err == "error: job.yaml:2: name is given twice, first in line 1. Remove one.\n"


@pytest.mark.parametrize("code", ["NeverPlaceable", "ExceedsMaxQuota"])
def test_a_refusal_by_quota_or_policy_exits_with_5(signed_in: Scripted, weft: Weft, code: str) -> None:
    signed_in.on("POST", "/workloads", problem(422, code, ("resources.gpus", "No node has 99 GPUs. Ask for 8.")))
    ran = weft(*FLAGS)
    assert (ran.code, ran.err) == (5, "error: resources.gpus: No node has 99 GPUs. Ask for 8.\n")


def test_what_one_may_not_do_exits_with_5(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", problem(403, "Forbidden", ("team", "Viewers of nlp submit nothing.")))
    assert weft(*FLAGS).code == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ("submit", "-f", "job.yaml", "--name", "other"),
        ("submit", "-f", "job.yaml", "training"),
        ("submit", "--gpus", "many"),
        ("get", "nodes", "--watch"),
        ("top", "planets"),
        ("frobnicate",),
        ("get", "-o", "xml"),
    ],
)
def test_wrong_usage_exits_with_2_and_sends_nothing(
    signed_in: Scripted, weft: Weft, arguments: tuple[str, ...]
) -> None:
    assert weft(*arguments).code == 2
    assert signed_in.requests == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("submit", "job"), "job is no type of workload."),
        (("submit",), "Nothing is no type of workload."),
        (("submit", "training", "-e", "X"), "--env X has no value."),
        (("submit", "training", "--wait", "--timeout", "soon"), "'soon' is no duration."),
    ],
)
def test_a_wrong_flag_says_what_to_write(
    signed_in: Scripted, weft: Weft, arguments: tuple[str, ...], says: str
) -> None:
    ran = weft(*arguments)
    assert (ran.code, signed_in.requests) == (1, [])
    assert says in ran.err


def test_a_dry_run_here_prints_what_would_be_sent(signed_in: Scripted, weft: Weft) -> None:
    ran = weft(*FLAGS, "--dry-run=client")
    assert (ran.code, signed_in.requests) == (0, [])
    assert yaml.safe_load(ran.out) == {
        "type": "training",
        "name": "hello",
        "team": "nlp",
        "image": "example/train:1",
        "resources": {"gpus": 1},
    }


def test_a_dry_run_on_the_server_tells_what_would_happen(signed_in: Scripted, weft: Weft) -> None:
    place = {"rank": 0, "node": "a100-1", "gpus": [2, 3]}
    victim = {"uid": "x", "name": "sweep", "team": "vision", "reason": "Reclaimed"}
    base = {"will_start": True, "phase": "Admitted", "reason": "", "message": "", "evicts": [], "position": None}
    waits = {"will_start": False, "phase": "Queued", "reason": "WaitingForQuota", "message": "2 GPUs are lent."}
    signed_in.on(
        "POST",
        "/workloads:preview",
        {**base, "placement": [place]},
        {**base, "placement": [], "evicts": [victim]},
        {**waits, "position": 3},
    )
    said = [weft(*FLAGS, "--dry-run=server").out for _ in range(3)]
    assert said == [
        "nlp/hello: would start now on a100-1 GPU 2,3.\n",
        "nlp/hello: would start after vision/sweep (Reclaimed) has left.\n",
        "nlp/hello: would wait, place 3 in the queue: WaitingForQuota. 2 GPUs are lent.\n",
    ]
    assert not signed_in.sent("POST", "/workloads")


def test_a_dry_run_of_a_pipeline_takes_its_own_steps_as_met(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    (shell / "p.yaml").write_text("name: prepare\nteam: nlp\n---\nname: train\nteam: nlp\nafter: [prepare, data]\n")
    signed_in.on("POST", "/workloads:preview", {"will_start": True, "phase": "Admitted"})
    assert weft("submit", "-f", "p.yaml", "--dry-run=server").out.splitlines() == [
        "nlp/prepare: would start now.",
        "nlp/train: after prepare, would start now.",
    ]
    assert [one.body.get("after") for one in signed_in.sent("POST", "/workloads:preview")] == [None, ["data"]]


# --- waiting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "code"), [("Succeeded", 0), ("Failed", 3), ("Rejected", 5), ("Expired", 5), ("Stopped", 6)]
)
def test_waiting_exits_as_the_workload_ended(signed_in: Scripted, weft: Weft, phase: str, code: int) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    signed_in.on("GET", AT, workload(phase="Running", message="1 of 1 workers run."), workload(phase=phase))
    ran = weft(*FLAGS, "--wait")
    assert ran.code == code
    assert [line.split("  ")[-1] for line in ran.err.splitlines()] == [
        "nlp/hello is Running: 1 of 1 workers run.",
        f"nlp/hello is {phase}",
    ]


def test_a_wait_that_takes_too_long_exits_with_4(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    signed_in.on("GET", AT, HELLO)
    ran = weft(*FLAGS, "--wait", "--timeout", "0.3")
    assert ran.code == 4
    assert "nlp/hello is still Queued after 0.3 s. It goes on." in ran.err


def test_a_service_is_waited_for_until_it_runs(signed_in: Scripted, weft: Weft) -> None:
    service = workload("chat", "Running", type="inference")
    signed_in.on("POST", "/workloads", created(service))
    signed_in.on("GET", f"/workloads/{service['uid']}", service)
    assert weft("submit", "inference", "--name", "chat", "--wait").code == 0


def test_a_pipeline_ends_with_its_first_failure(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    first = workload("prepare", "Failed", exit_code=2)
    second = workload("train", after=["prepare"], unmet=["prepare"])
    third = workload("serve", type="inference", after=["train"], unmet=["train"])
    (shell / "p.yaml").write_text("name: prepare\n---\nname: train\n---\nname: serve\n")
    signed_in.on("POST", "/workloads:batch", created(first, second, third))
    for one in (first, second, third):
        signed_in.on("GET", f"/workloads/{one['uid']}", one)
    ran = weft("submit", "-f", "p.yaml", "--wait", "--timeout", "30")
    assert ran.code == 3
    assert "nlp/prepare is Failed (exit code 2)" in ran.err
    assert "nlp/train can never start: what it waits for (prepare) did not succeed." in ran.err
    assert "nlp/serve can never start: what it waits for (train) did not succeed." in ran.err


# --- reading ---------------------------------------------------------------------------------


def test_a_list_is_an_aligned_table(signed_in: Scripted, weft: Weft) -> None:
    long = workload("a-long-name", "Running", submitted_at="2026-01-01T00:09:15Z", resources={"milli_gpu": 2500})
    signed_in.on("GET", "/workloads", page(long, workload(reason="WaitingForQuota")))
    assert weft("get").out.splitlines() == [
        "TEAM   NAME          TYPE       PHASE     WORKERS   GPUS   AGE   REASON",
        "nlp    a-long-name   training   Running   0/1        2.5   45s   -",
        "nlp    hello         training   Queued    0/1          1   10m   WaitingForQuota",
    ]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_lists_for_programs_are_the_servers_answers(signed_in: Scripted, weft: Weft, form: str) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    assert yaml.safe_load(weft("get", "-o", form).out) == [HELLO]
    assert not signed_in.sent("GET", "/cluster")


def test_one_workload_for_programs_is_one_object(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, {**HELLO, "spec": {"type": "training"}})
    assert json.loads(weft("get", "nlp/hello", "-o", "json").out)["spec"] == {"type": "training"}
    assert weft("get", "workloads", "nlp/hello", "-o", "name").out == "nlp/hello\n"


def test_filters_are_sent(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page())
    ran = weft("get", "--team", "nlp", "-l", "phase=Queued|Held,type=training", "--limit", "5")
    assert signed_in.sent("GET", "/workloads")[0].query == {
        "team": "nlp",
        "type": "training",
        "phase": "Queued,Held",
        "page_size": "5",
    }
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("No workloads. Submit one: weft submit")


def test_other_things_are_listed_too(signed_in: Scripted, weft: Weft) -> None:
    quota = {"team": "nlp", "pool": "a100", "nominal_milli": 8000, "borrowing_limit_milli": None, "weight": 1}
    signed_in.on("GET", "/quotas", page({**quota, "lending_limit_milli": 500}))
    assert weft("get", "quotas").out.splitlines() == [
        "TEAM   POOL   NOMINAL   MAY BORROW   LENDS   WEIGHT",
        "nlp    a100         8     no limit     0.5        1",
    ]
    share = {"team": "nlp", "pool": "a100", "nominal_milli": 8000, "entitled_milli": 9500, "held_milli": 9000}
    signed_in.on("GET", "/shares", page({**share, "decayed_milli": 7250}))
    assert weft("get", "shares").out.splitlines() == [
        "TEAM   POOL   NOMINAL   ENTITLED   HELD   DECAYED USE",
        "nlp    a100         8        9.5      9          7.25",
    ]
    budget = {"team": "nlp", "period": "week", "gpu_hours": 100, "used_hours": 12.25, "is_hard": True}
    signed_in.on("GET", "/teams/nlp/budgets", page(budget))
    assert weft("get", "budgets", "--team", "nlp").out.splitlines() == [
        "TEAM   PERIOD   GPU HOURS   USED   ONCE USED UP",
        "nlp    week           100   12.2   nothing starts",
    ]
    usage = {
        "start": None,
        "team": "nlp",
        "user": "",
        "held_milli_seconds": 7_200_000,
        "computed_milli_seconds": 1_800_000,
    }
    signed_in.on("GET", "/usage", {"granularity": "all", "rows": [usage]})
    assert weft("get", "usage").out.splitlines()[1].split() == ["nlp", "2.00", "0.50", "25%"]


def test_top_keeps_held_and_computing_apart(signed_in: Scripted, weft: Weft) -> None:
    team = {
        "name": "nlp",
        "nominal_milli": 8000,
        "held_milli": 10_000,
        "borrowed_milli": 2000,
        "waiting": 3,
        "running": 4,
    }
    signed_in.on("GET", "/teams", page({**team, "computing_milli": 7240}, {**team, "name": "vision"}))
    assert weft("top").out.splitlines() == [
        "NAME     NOMINAL   HELD   BORROWED   COMPUTING   RUNNING   WAITING",
        "nlp            8     10          2         7.2         4         3",
        "vision         8     10          2           -         4         3",
    ]


def test_why_shows_what_holds_and_what_was_not_looked_at(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on(
        "GET",
        f"{AT}/explanation",
        {
            "uid": HELLO["uid"],
            "phase": "Queued",
            "reason": "WaitingForQuota",
            "message": "Needs 4 GPUs; nlp may hold 2 more.",
            "numbers": {"needs_milli": 4000, "free_milli": 2000},
            "since": "2026-01-01T00:06:00Z",
            "position": 3,
            "will_start": False,
            "evicts": [{"uid": None, "name": None, "team": "vision", "reason": "Reclaimed"}],
            "checks": [
                {"name": "Quota", "status": "ok", "message": "nlp may hold 4 more."},
                {"name": "Order", "status": "fails", "message": "big goes first."},
                {"name": "Placement", "status": "unknown", "message": ""},
            ],
            "remedies": [
                {"kind": "gpus", "text": "Ask 2 GPUs instead of 4.", "tested": True, "is_smallest": True},
                {"kind": "stop", "text": "Stop nlp/x\x1b[31m.", "tested": True, "is_smallest": False},
            ],
        },
    )
    assert weft("why", "hello").out.splitlines() == [
        "nlp/hello is Queued (WaitingForQuota), for 4m, place 3 in the queue.",
        "  Needs 4 GPUs; nlp may hold 2 more.",
        "  ✓ Quota       nlp may hold 4 more.",
        "  ✗ Order       big goes first.",
        "  – Placement",
        "  Takes the place of a workload of team vision (Reclaimed).",
        "  Any one of these would start it now:",
        "  - Ask 2 GPUs instead of 4. (tested)",
        "  - Stop nlp/x[31m. (tested; less may do)",
    ]


def test_logs_of_several_workers_name_the_rank(signed_in: Scripted, weft: Weft) -> None:
    gang = workload(workers={"count": 2, "running": 2})
    lines = [{"at": "2026-01-01T00:00:01Z", "seconds": 1.0, "rank": rank, "text": f"step {rank}"} for rank in (0, 1)]
    signed_in.on("GET", "/workloads", page(gang))
    signed_in.on("GET", f"{AT}/logs", {"lines": lines, "attempt": 1, "next_since": 1.0})
    assert weft("logs", "hello", "--tail", "20", "--since", "5m").out == "[0] step 0\n[1] step 1\n"
    assert signed_in.requests[-1].query == {"tail": "20", "since": "300.0"}
    assert weft("logs", "hello", "--rank", "1", "--timestamps").out.startswith("2026-01-01 00:00:01 step 0\n")


def test_following_a_log_ends_with_the_workload(signed_in: Scripted, weft: Weft) -> None:
    def piece(*texts: str, since: float) -> dict[str, object]:
        lines = [{"at": "2026-01-01T00:00:01Z", "seconds": since, "rank": 0, "text": text} for text in texts]
        return {"lines": lines, "attempt": 1, "next_since": since}

    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, workload(phase="Running"), workload(phase="Running"), workload(phase="Succeeded"))
    signed_in.on(
        "GET", f"{AT}/logs", piece("a", since=1), piece("b", "c", since=2), piece("d", since=3), piece(since=3)
    )
    ran = weft("logs", "-f", "hello")
    assert (ran.code, ran.out) == (0, "a\nb\nc\nd\n")
    asked = [(one.query.get("since"), one.query["tail"]) for one in signed_in.sent("GET", f"{AT}/logs")]
    assert asked == [(None, "100"), ("1", "10000"), ("2", "10000"), ("3", "10000")]


def test_describe_shows_spec_placement_and_events(signed_in: Scripted, weft: Weft) -> None:
    event = {
        "id": 1,
        "cluster_at": "2026-01-01T00:00:00Z",
        "actor": "mel",
        "kind": "Submitted",
        "message": "hi\x1b[31m",
    }
    worker = {"rank": 0, "node": "a100-1", "gpus": [2], "milli": 1000, "state": "Bound", "pod_phase": "Running"}
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, {**HELLO, "spec": {"type": "training", "env": {"A": "1"}}})
    signed_in.on("GET", f"{AT}/placement", {"attempt": 1, "workers": [worker]})
    signed_in.on("GET", f"{AT}/events", page(event))
    said = weft("describe", "hello").out
    assert "Name:          nlp/hello\n" in said
    assert "\nSpec:\n  type: training\n  env:\n    A: '1'\n" in said
    assert (
        "\nPlacement:\n  RANK   NODE     GPUS   HELD   STATE   POD\n     0   a100-1   2         1   Bound   Running\n"
        in said
    )
    assert "mel   -        hi[31m\n" in said


# --- acting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "phase"), [("suspend", "Suspending"), ("resume", "Queued"), ("requeue", "Checkpointing")]
)
def test_verbs_are_sent_and_told(signed_in: Scripted, weft: Weft, verb: str, phase: str) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("POST", f"{AT}/{verb}", workload(phase=phase))
    ran = weft(verb, "nlp/hello")
    assert (ran.code, ran.out) == (0, f"nlp/hello is {phase}.\n")


def test_stop_without_a_terminal_does_not_ask(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, HELLO)
    signed_in.on("POST", f"{AT}/stop", workload(phase="Stopping"))
    assert weft("stop", "hello").out == "nlp/hello is Stopping.\n"


def test_stopping_what_has_ended_is_no_error(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", AT, workload(phase="Succeeded"))
    ran = weft("stop", str(HELLO["uid"]))
    assert (ran.code, ran.out) == (0, "nlp/hello has ended already: Succeeded.\n")


def test_a_wrong_name_among_several_stops_nothing(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO), page(), page())
    signed_in.on("GET", AT, HELLO)
    ran = weft("stop", "hello", "wrong")
    assert ran.code == 1
    assert "There is no workload wrong" in ran.err
    assert not signed_in.sent("POST", f"{AT}/stop")


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
