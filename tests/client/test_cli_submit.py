"""The command line: what a submission sends, prints and exits with, and waiting for its end."""

from pathlib import Path

import pytest
import yaml

from tests.client.conftest import Weft
from tests.client.scripted import Scripted, created, problem, workload

HELLO = workload()
AT = f"/workloads/{HELLO['uid']}"
FLAGS = ("submit", "training", "--name", "hello", "--team", "nlp", "--image", "example/train:1", "--gpus", "1")


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


def test_a_notebook_may_have_its_gpu_on_demand(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    weft("submit", "notebook", "--name", "n", "--gpu-share", "0.1", "--gpu-memory", "8Gi", "--on-demand")
    body = signed_in.requests[-1].body
    assert (body["type"], body["on_demand"]) == ("notebook", True)


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
        (("submit", "job"), "job is not a type of workload."),
        (("submit",), "No type of workload is given."),
        (("submit", "training", "-e", "X"), "--env X has no value."),
        (("submit", "training", "--wait", "--timeout", "soon"), "'soon' is not a duration."),
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
        {**waits, "position": 3, "in_queue": 9},
    )
    said = [weft(*FLAGS, "--dry-run=server").out for _ in range(3)]
    assert said == [
        "nlp/hello: would start now on a100-1 GPU 2,3.\n",
        "nlp/hello: would start after the eviction of vision/sweep (Reclaimed).\n",
        "nlp/hello: would wait, position 3 of 9 in the queue: WaitingForQuota. 2 GPUs are lent.\n",
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


def test_waiting_tells_that_it_started_again(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    first, again = (HELLO | {"phase": "Running", "attempt": number} for number in (1, 2))
    signed_in.on("GET", AT, first, again, HELLO | {"phase": "Succeeded", "attempt": 2})
    assert [line.split("  ")[-1] for line in weft(*FLAGS, "--wait").err.splitlines()] == [
        "nlp/hello is Running",
        "nlp/hello is Running, attempt 2",
        "nlp/hello is Succeeded, attempt 2",
    ]


def test_a_wait_that_takes_too_long_exits_with_4(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    signed_in.on("GET", AT, HELLO)
    ran = weft(*FLAGS, "--wait", "--timeout", "0.3")
    assert ran.code == 4
    assert "nlp/hello is still Queued after 0.3 s. It continues to run." in ran.err


def test_a_service_is_waited_for_until_it_runs(signed_in: Scripted, weft: Weft) -> None:
    service = workload("chat", "Running", type="inference")
    signed_in.on("POST", "/workloads", created(service))
    signed_in.on("GET", f"/workloads/{service['uid']}", service)
    assert weft("submit", "inference", "--name", "chat", "--wait").code == 0


def test_a_pipeline_ends_with_its_first_failure(signed_in: Scripted, weft: Weft, shell: Path) -> None:
    first = workload("prepare", "Failed", exit_code=2)
    never = {"reason": "DependencyFailed", "message": "It starts after prepare has succeeded, but prepare failed."}
    second = workload("train", "Stopped", after=["prepare"], unmet=["prepare"], **never)
    third = workload("serve", "Stopped", type="inference", after=["train"], unmet=["train"], reason="DependencyFailed")
    (shell / "p.yaml").write_text("name: prepare\n---\nname: train\n---\nname: serve\n")
    signed_in.on("POST", "/workloads:batch", created(first, second, third))
    for one in (first, second, third):
        signed_in.on("GET", f"/workloads/{one['uid']}", one)
    ran = weft("submit", "-f", "p.yaml", "--wait", "--timeout", "30")
    assert ran.code == 3
    assert "nlp/prepare is Failed (exit code 2)" in ran.err
    assert "nlp/train is Stopped: It starts after prepare has succeeded, but prepare failed." in ran.err
    assert "nlp/serve is Stopped" in ran.err


def test_a_step_that_cannot_start_any_more_counts_as_failed(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", AT, {**HELLO, "phase": "Stopped", "reason": "DependencyFailed"})
    signed_in.on("GET", "/workloads", {"results": [HELLO], "next": None})
    assert weft("wait", "nlp/hello").code == 3


# --- what is not understood ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("wait", "nlp/hello", "--for", "Runing"), "--for Runing is not a state. Use one of ready, running, terminal"),
        (("get", "--phase", "Waiting"), "Waiting is not a phase. Use one of Submitted, Queued, Held"),
        (("get", "-l", "phase=Queued|Nope"), "Nope is not a phase. Use one of Submitted, Queued, Held"),
        (("get", "hello", "world"), "hello cannot be listed. Use one of workloads, nodes"),
        (("get", "nlp/hello", "--phase", "Queued"), "--phase and --selector are for lists"),
        (("get", "--phase", "Queued", "-l", "phase=Held"), "phase is given as an option and in --selector"),
        (("get", "nodes", "--team", "nlp"), "--team is for workloads, teams, quotas, shares, budgets"),
        (("get", "usage", "nlp"), "usage takes no NAME such as nlp"),
        (("submit", "training", "python", "train.py", "--name", "a"), "python is not expected here"),
        (("submit", "training", "hello", "--name", "a", "--", "python"), "hello is not expected here"),
        (("queue", "nlp"), "unexpected extra argument"),
    ],
)
def test_a_word_that_means_nothing_is_refused(
    signed_in: Scripted, weft: Weft, words: tuple[str, ...], said: str
) -> None:
    ran = weft(*words)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert not signed_in.sent("POST", "/workloads")


@pytest.mark.parametrize(
    ("selector", "said"),
    [("type=job", "--selector type=job is not a type"), ("phase=Queued,phase=Held", "names phase twice"),
     ("phase=", "is not understood"), ("colour=red", "is not understood")],
)  # fmt: skip
def test_a_selector_that_means_nothing_is_refused(signed_in: Scripted, weft: Weft, selector: str, said: str) -> None:
    ran = weft("get", "-l", selector)
    assert (ran.code, said in ran.err) == (1, True)


def test_phases_are_taken_in_any_case(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", {"results": [HELLO], "next": None})
    assert weft("get", "--phase", "queued", "-o", "name").out == "nlp/hello\n"
    assert signed_in.sent("GET", "/workloads")[-1].query["phase"] == "Queued"


# --- the team meant where none is named ---------------------------------------------------------


@pytest.mark.parametrize(
    ("teams", "bound", "team"),
    [
        ([("nlp", "member")], None, "nlp"),
        ([("nlp", "member"), ("vision", "viewer")], None, "nlp"),
        ([("nlp", "member"), ("vision", "admin")], "vision", "vision"),
        ([("nlp", "member"), ("vision", "admin")], None, None),
    ],
)
def test_the_only_team_of_a_token_is_its_default(
    signed_in: Scripted, weft: Weft, teams: list[tuple[str, str]], bound: str | None, team: str | None
) -> None:
    me = {"username": "ci", "teams": [{"team": name, "role": role} for name, role in teams], "token": {"team": bound}}
    signed_in.on("GET", "/me", me)
    signed_in.on("POST", "/workloads", created(HELLO))
    assert weft("submit", "training", "--name", "hello", "--image", "a:1").code == 0
    assert signed_in.sent("POST", "/workloads")[0].body.get("team") == team


def test_a_team_that_is_named_needs_no_question(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("POST", "/workloads", created(HELLO))
    assert weft("submit", "training", "--name", "hello", "--image", "a:1", "--team", "nlp").code == 0
    assert not signed_in.sent("GET", "/me")


# --- budgets ------------------------------------------------------------------------------------

BUDGET = {"team": "nlp", "period": "week", "gpu_hours": 50, "is_hard": True, "used_hours": 60.0, "is_used_up": True}
USED_UP = problem(422, "UsedUpAlready", ("gpu_hours", "60.0 GPU hours are used already."))


def test_a_budget_that_is_used_up_already_is_saved_only_with_yes(signed_in: Scripted, weft: Weft) -> None:
    at = "/teams/nlp/budgets"
    signed_in.on("GET", at, {"results": [BUDGET], "next": None})
    signed_in.on("PUT", f"{at}/week", USED_UP, BUDGET)
    ran = weft("budget", "nlp", "week", "50")
    assert (ran.code, ran.out) == (1, "")
    assert "60.0 GPU hours are used already. With --yes it is saved anyway." in ran.err
    ran = weft("budget", "nlp", "week", "50", "--soft", "--yes")
    assert ran.out == "nlp may use 50 GPU hours each week, then nothing new starts; 60.0 used in this one.\n"
    first, second = (one.body for one in signed_in.sent("PUT", f"{at}/week"))
    assert first == {"gpu_hours": 50, "is_hard": True, "accept_used_up": False}
    assert second == {"gpu_hours": 50, "is_hard": False, "accept_used_up": True}
