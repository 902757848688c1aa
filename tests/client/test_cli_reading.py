"""The command line: what it shows."""

import json
import re

import pytest
import yaml

from tests.client.conftest import Weft
from tests.client.scripted import Scripted, page, problem, workload

HELLO = workload()
AT = f"/workloads/{HELLO['uid']}"
FLAGS = ("submit", "training", "--name", "hello", "--team", "nlp", "--image", "example/train:1", "--gpus", "1")


# --- reading ---------------------------------------------------------------------------------


def test_a_list_is_an_aligned_table(signed_in: Scripted, weft: Weft) -> None:
    long = workload("a-long-name", "Running", submitted_at="2026-01-01T00:09:15Z", resources={"milli_gpu": 2500})
    signed_in.on("GET", "/workloads", page(long, workload(reason="WaitingForQuota")))
    assert weft("get").out.splitlines() == [
        "TEAM   NAME          TYPE       PHASE     STANDING   WORKERS   GPUS   AGE   REASON",
        "nlp    a-long-name   training   Running   -          0/1        2.5   45s   -",
        "nlp    hello         training   Queued    -          0/1          1   10m   WaitingForQuota",
    ]


def test_a_list_says_how_each_service_stands_against_its_objective(signed_in: Scripted, weft: Weft) -> None:
    chat = workload("chat", "Running", type="inference", standing="at risk")
    without = workload("draft", "Running", type="inference", standing=None)
    signed_in.on("GET", "/workloads", page(chat, without))
    lines = weft("get").out.splitlines()
    assert [line[lines[0].index("STANDING") :][:10].rstrip() for line in lines] == ["STANDING", "At risk", "-"]


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
        "TEAM   POOL   NOMINAL   MAY BORROW   MAY LEND   WEIGHT",
        "nlp    a100         8     no limit        0.5        1",
    ]
    share = {"team": "nlp", "pool": "a100", "nominal_milli": 8000, "entitled_milli": 9500, "allocated_milli": 9000}
    signed_in.on("GET", "/shares", page({**share, "recent_usage_milli": 7250}))
    assert weft("get", "shares").out.splitlines() == [
        "TEAM   POOL   NOMINAL   ENTITLED   ALLOCATED   RECENT USAGE",
        "nlp    a100         8        9.5           9           7.25",
    ]
    budget = {"team": "nlp", "period": "week", "gpu_hours": 100, "used_hours": 12.25, "is_hard": True}
    signed_in.on("GET", "/teams/nlp/budgets", page(budget))
    assert weft("get", "budgets", "--team", "nlp").out.splitlines() == [
        "TEAM   PERIOD   GPU HOURS   USED   WHEN USED UP",
        "nlp    week           100   12.2   nothing new starts",
    ]
    usage = {
        "start": None,
        "team": "nlp",
        "user": "",
        "allocated_milli_seconds": 7_200_000,
        "computed_milli_seconds": 1_800_000,
    }
    signed_in.on("GET", "/usage", {"granularity": "all", "rows": [usage]})
    assert weft("get", "usage").out.splitlines()[1].split() == ["nlp", "2.00", "0.50", "25%"]


def test_top_keeps_allocated_and_computing_apart(signed_in: Scripted, weft: Weft) -> None:
    team = {
        "name": "nlp",
        "nominal_milli": 8000,
        "allocated_milli": 10_000,
        "borrowed_milli": 2000,
        "waiting": 3,
        "running": 4,
    }
    signed_in.on("GET", "/teams", page({**team, "computing_milli": 7240}, {**team, "name": "vision"}))
    assert weft("top").out.splitlines() == [
        "NAME     NOMINAL   ALLOCATED   BORROWED   COMPUTING   RUNNING   WAITING",
        "nlp            8          10          2         7.2         4         3",
        "vision         8          10          2           -         4         3",
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
            "in_queue": 9,
            "will_start": False,
            "evicts": [{"uid": None, "name": None, "team": "vision", "reason": "Reclaimed"}],
            "checks": [
                {"name": "Quota", "status": "ok", "message": "nlp may hold 4 more."},
                {"name": "Order", "status": "fails", "message": "big goes first."},
                {"name": "Placement", "status": "unknown", "message": ""},
            ],
            "suggestions": [
                {
                    "kind": "gpus",
                    "text": "Ask 2 GPUs instead of 4.",
                    "tested": True,
                    "is_smallest": True,
                    "may_apply": True,
                },
                {"kind": "stop", "text": "Stop nlp/x\x1b[31m.", "tested": True, "is_smallest": False},
            ],
        },
    )
    assert weft("why", "hello").out.splitlines() == [
        "nlp/hello is Queued (WaitingForQuota), for 4m, position 3 of 9 in the queue.",
        "  Needs 4 GPUs; nlp may hold 2 more.",
        "  ✓ Quota       nlp may hold 4 more.",
        "  ✗ Order       big goes first.",
        "  – Placement",
        "  Evicts a workload of team vision (Reclaimed).",
        "  Any one of these would start it now:",
        "  - gpus: Ask 2 GPUs instead of 4. (tested)",
        "  - Stop nlp/x[31m. (tested; less may be enough)",
        "  To apply one: weft suggestion nlp/hello gpus",
    ]


LESS = {
    "kind": "gpus", "text": "Ask 2 GPUs instead of 4.", "before": 4, "after": 2, "target": "", "pool": "",
    "tested": True, "is_smallest": True, "may_apply": True,
}  # fmt: skip


def test_a_remedy_is_applied_to_the_version_that_was_seen(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page({**HELLO, "version": 7}))
    signed_in.on("GET", f"{AT}/explanation", {"phase": "Queued", "will_start": False, "suggestions": [LESS]})
    signed_in.on("POST", f"{AT}/suggestion", {**HELLO, "version": 8})
    ran = weft("suggestion", "hello", "gpus")
    assert ran.out == "nlp/hello: Ask 2 GPUs instead of 4. It starts in the next round.\n"
    (sent,) = signed_in.sent("POST", f"{AT}/suggestion")
    assert sent.body == {"kind": "gpus", "after": 2, "target": "", "pool": ""}
    assert {name.lower(): value for name, value in sent.headers.items()}["if-match"] == '"7"'


def test_without_a_kind_the_remedies_are_listed_and_a_wrong_one_is_told(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", f"{AT}/explanation", {"phase": "Queued", "will_start": False, "suggestions": [LESS]})
    assert weft("suggestion", "hello").out.splitlines()[-2:] == [
        "  - gpus: Ask 2 GPUs instead of 4. (tested)",
        "  To apply one: weft suggestion nlp/hello gpus",
    ]
    ran = weft("suggestion", "hello", "luck")
    assert (ran.code, ran.err) == (1, "error: No change of luck would start nlp/hello now. These would: gpus.\n")
    assert not signed_in.sent("POST", f"{AT}/suggestion")


def test_the_name_that_the_command_had_does_the_same_and_says_what_to_use(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", f"{AT}/explanation", {"phase": "Queued", "will_start": False, "suggestions": [LESS]})
    old, new = weft("remedy", "hello"), weft("suggestion", "hello")
    assert (old.code, old.out) == (new.code, new.out)
    assert old.err.splitlines()[-1] == "Deprecated: use `weft suggestion`. The old name is removed in 0.2."
    assert "remedy" not in weft("--help").out


def test_a_remedy_that_no_longer_holds_says_what_would(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", f"{AT}/explanation", {"phase": "Queued", "will_start": False, "suggestions": [LESS]})
    said = "The next round would not start hello with that. This would: Ask 1 GPU instead of 4."
    signed_in.on("POST", f"{AT}/suggestion", problem(409, "NoLongerHolds", ("kind", said)))
    assert weft("suggestion", "hello", "gpus").err == f"error: {said}\n"


def test_why_says_why_no_changes_are_told(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    told = {"phase": "Queued", "position": 1, "will_start": False, "no_suggestions": "fifo is in use; preview a job."}
    signed_in.on("GET", f"{AT}/explanation", told)
    assert weft("why", "hello").out.splitlines()[-1] == "  fifo is in use; preview a job."


def test_why_says_what_weft_changed_of_a_training_and_how_to_undo_it(signed_in: Scripted, weft: Weft) -> None:
    signed_in.on("GET", "/workloads", page(HELLO))
    changed = {
        "axis": "workers",
        "status": "kept",
        "since": "2026-01-01T00:06:00Z",
        "message": "It has at most 2 workers\x1b[31m of the 4 that it may have.",
        "undo": "`weft rollback hello` lets it have more again.",
    }
    told = {"phase": "Running", "changed_by_weft": [changed, {**changed, "since": None}]}
    signed_in.on("GET", f"{AT}/explanation", told)
    said = weft("why", "hello").out.splitlines()
    assert "  Changed by Weft, since 2026-01-01T00:06:00Z: It has at most 2 workers" in said[1]
    assert "\x1b" not in said[1]
    assert said[2] == "    `weft rollback hello` lets it have more again."
    assert said[3].startswith("  Changed by Weft: ")


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
        "\nPlacement:\n  RANK   ROLE       NODE     GPUS   ALLOCATED   STATE   POD\n"
        "     0   worker 0   a100-1   2              1   Bound   Running\n"
    ) in said
    assert "mel   -        hi[31m\n" in said


def test_describe_shows_members_by_role(signed_in: Scripted, weft: Weft) -> None:
    role = {"name": "ps", "count": 2, "placed": 2, "running": 1, "resources": {}}
    server = {"rank": 1, "role": "ps", "index": 1, "node": "cpu-1", "gpus": [], "milli": 0, "state": "Bound"}
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, {**HELLO, "roles": [role], "spec": {}})
    signed_in.on("GET", f"{AT}/placement", {"attempt": 1, "workers": [server]})
    signed_in.on("GET", f"{AT}/events", page())
    said = weft("describe", "hello").out
    assert re.search(r"\nPs: +1/2 running\n", said)
    assert re.search(r"\n +1 +ps 1 +cpu-1 +- +0 ", said)


def test_describe_tells_how_kubernetes_scales_a_service(signed_in: Scripted, weft: Weft) -> None:
    chat = workload("chat", "Running", type="inference")
    signed_in.on("GET", "/workloads", page(chat))
    signed_in.on("GET", f"/workloads/{chat['uid']}", {**chat, "spec": {"scaling": "native"}})
    signed_in.on("GET", f"/workloads/{chat['uid']}/placement", {"attempt": 1, "workers": []})
    signed_in.on("GET", f"/workloads/{chat['uid']}/events", page())
    signed_in.on("GET", f"/inferences/{chat['uid']}/slo", {"standing": "met", "budget_left": 1.0, "burn_rate": 0.0})
    signed_in.on("GET", f"/inferences/{chat['uid']}/revisions", {"revision": 1, "rollout": None, "revisions": []})
    told = {
        "requests_in_flight": 31.0, "target_per_replica": 6.4, "current_replicas": 2, "desired_replicas": 5,
        "conditions": [
            {"type": "AbleToScale", "status": "True", "reason": "Ready", "message": ""},
            {"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas", "message": "more than 4"},
        ],
        "other_owner": "helm", "seen_at": None,
    }  # fmt: skip
    signed_in.on("GET", f"/inferences/{chat['uid']}/autoscaling", {"native": told, "sleep": None})
    said = weft("describe", "chat").out
    assert "Kubernetes' HPA: 2 replicas now, 5 wanted" in said
    assert "31.0 in flight, 6.4 are to be at each replica" in said
    assert re.search(r"\nScalingLimited: +True: TooManyReplicas: more than 4\n", said)
    assert "AbleToScale" not in said
    assert "helm writes the number of replicas too" in said


def test_describe_says_what_replicas_on_shares_may_use(signed_in: Scripted, weft: Weft) -> None:
    chat = workload("chat", "Running", type="inference")
    share = {"guarantee": 0.3, "limit": 0.3, "max_limit": 0.9, "memory": "8Gi"}
    told = "0.55 of a GPU, between 0.3 and 0.9"
    signed_in.on("GET", "/workloads", page(chat))
    signed_in.on("GET", f"/workloads/{chat['uid']}", {**chat, "spec": {"resources": {"gpu_share": share}}})
    signed_in.on("GET", f"/workloads/{chat['uid']}/placement", {"attempt": 1, "workers": []})
    signed_in.on("GET", f"/workloads/{chat['uid']}/events", page())
    signed_in.on("GET", f"/inferences/{chat['uid']}/slo", {"standing": "met", "budget_left": 1.0, "burn_rate": 0.0})
    signed_in.on("GET", f"/inferences/{chat['uid']}/revisions", {"revision": 1, "rollout": None, "revisions": []})
    signed_in.on("GET", f"/inferences/{chat['uid']}/autoscaling", {"raised_limit": {"sentence": told}})
    assert re.search(rf"\nLimit: +{re.escape(told)}\n", weft("describe", "chat").out)


def test_describe_tells_how_a_service_stands(signed_in: Scripted, weft: Weft) -> None:
    chat = workload("chat", "Running", type="inference")
    slo = {"standing": "at risk", "budget_left": 0.4, "burn_rate": 15.25}
    signed_in.on("GET", "/workloads", page(chat))
    signed_in.on("GET", f"/workloads/{chat['uid']}", {**chat, "spec": {}})
    signed_in.on("GET", f"/workloads/{chat['uid']}/placement", {"attempt": 1, "workers": []})
    signed_in.on("GET", f"/workloads/{chat['uid']}/events", page())
    signed_in.on("GET", f"/inferences/{chat['uid']}/slo", slo)
    signed_in.on("GET", f"/inferences/{chat['uid']}/revisions", {"revision": 3, "rollout": None, "revisions": []})
    told = "at risk: 40% of the error budget left, burn rate of the last hour 15.2x (1x = on target)"
    assert re.search(rf"\nObjective: +{re.escape(told)}\n", weft("describe", "chat").out)
    assert json.loads(weft("describe", "chat", "-o", "json").out)["slo"] == slo
    why = "No first token was measured."
    first = {"standing": "not known", "budget_left": None, "burn_rate": None, "p95_of": "first_token"}
    first |= {"availability_target": 0.999, "p95_target_seconds": 0.5, "unknown_why": why}
    signed_in.on("GET", f"/inferences/{chat['uid']}/slo", first)
    told = f"not known: 99.9% of first tokens within 500 ms, {why}"
    assert re.search(rf"\nObjective: +{re.escape(told)}\n", weft("describe", "chat").out)


def test_describe_says_how_soon_replicas_on_standby_answer(signed_in: Scripted, weft: Weft) -> None:
    chat = workload("chat", "Running", type="inference")
    told = {"serving": 1, "asleep": 3, "on_host": 1, "lent": 2, "wake_seconds": 2.0, "host_wake_seconds": 10.0}
    price = {"sentence": "1 worker left 1 GPU that was lent to it; about 0.2 GPU-seconds lost."}
    gave = {"at": "2026-01-01T00:09:00Z", "team": "cv", "name": "resnet", "reclaim_price": price}
    taken = [gave, {**gave, "name": "", "reclaim_price": None}]
    signed_in.on("GET", "/workloads", page(chat))
    signed_in.on("GET", f"/workloads/{chat['uid']}", {**chat, "spec": {"standby": 2, "standby_memory": "host"}})
    signed_in.on("GET", f"/workloads/{chat['uid']}/placement", {"attempt": 1, "workers": []})
    signed_in.on("GET", f"/workloads/{chat['uid']}/events", page())
    signed_in.on("GET", f"/inferences/{chat['uid']}/slo", {"standing": "met", "budget_left": 1.0, "burn_rate": 0.0})
    signed_in.on("GET", f"/inferences/{chat['uid']}/revisions", {"revision": 1, "rollout": None, "revisions": []})
    signed_in.on("GET", f"/inferences/{chat['uid']}/autoscaling", {"standby": told, "taken": taken})
    said = weft("describe", "chat").out
    assert "1 serve, 3 on standby (2 answer in 2s, 1 in 10s, from host memory), 2 of their GPUs lent" in said
    assert re.search(rf"\nTook GPUs of: +cv/resnet, [\d-]+ 00:09(:00)? UTC: {re.escape(price['sentence'])}\n", said)
    assert "a workload of team cv, " in said


def test_an_event_that_took_gpus_tells_its_price(signed_in: Scripted, weft: Weft) -> None:
    one = {
        "id": 1,
        "cluster_at": "2026-01-01T00:09:00Z",
        "actor": "scale",
        "kind": "Shrunk",
        "message": "Gives 1 back.",
    }
    signed_in.on("GET", "/workloads", page(HELLO))
    signed_in.on("GET", AT, {**HELLO, "spec": {"type": "training"}})
    signed_in.on("GET", f"{AT}/placement", {"attempt": 1, "workers": []})
    signed_in.on("GET", f"{AT}/events", page({**one, "reclaim_price": {"sentence": "1 worker left."}}, one))
    said = weft("describe", "hello").out
    assert "Gives 1 back. 1 worker left." in said
    assert said.count("1 worker left.") == 1
