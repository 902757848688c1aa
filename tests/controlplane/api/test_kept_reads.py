"""On a large cluster reads ask the newest full round; what they say is what a round of their own would, as of then."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from controlplane.loops import schedule
from controlplane.models import Node, RoundView, StartForecast, Team, Workload
from controlplane.queries.rounds import decider, kept
from controlplane.queries.scheduling import snapshot
from controlplane.queries.workloads import whatif
from scheduler.model.decision import Reason
from scheduler.model.snapshot import Snapshot
from tests.controlplane.api.conftest import People, body_of, job, submit

LARGE = override_settings(DRY_RUN_MOST=0)
WHOLE = '"phase" IN'  # the condition under which all live workloads are read
BOTH_FULL = ("first", "second")


@pytest.fixture(autouse=True)
def large() -> Iterator[None]:
    """Any cluster is a large one."""
    with LARGE:
        yield


def decide(api: People, *, seconds: float = 10.0) -> None:
    """A full round."""
    api.world.later(seconds)
    api.world.observe()
    schedule.run_once(api.world.wiring)


def full(api: People) -> list[dict[str, Any]]:
    """Both nodes are full, and four workloads wait, of which two ask the same, one is another team's."""
    for name, node in zip(BOTH_FULL, ("a", "b"), strict=True):
        api.world.run(Workload.objects.get(pk=submit(api.member, name, resources={"gpus": 8})["uid"]), node)
    waiting = [submit(api.member, name, resources={"gpus": gpus}) for name, gpus in (("x", 2), ("y", 2), ("z", 1))]
    waiting.append(body_of(api.blue_member.post("/workloads", job("theirs", "blue", resources={"gpus": 4})), 201))
    return waiting


def told(api: People, row: dict[str, Any], path: str = "explanation") -> dict[str, Any]:
    found: dict[str, Any] = body_of(api.member.get(f"/workloads/{row['uid']}/{path}"))
    return found


def test_the_queue_is_that_of_a_round_of_its_own(api: People) -> None:
    full(api)
    decide(api)
    line, dry = whatif.line(), whatif.dry_line(snapshot.full())
    assert line.is_kept
    assert line.as_of == api.world.cluster.at
    assert line.turns == dry.turns
    seen = body_of(api.member.get("/queue"))
    assert {row["name"] for row in seen["results"]} == {"x", "y", "z"}
    with override_settings(DRY_RUN_MOST=1000):
        assert body_of(api.member.get("/queue")) == seen


def test_an_explanation_is_that_of_a_round_of_its_own(api: People) -> None:
    rows = full(api)
    decide(api)
    for row in rows[:3]:
        found = told(api, row)
        assert found["suggestions"] == []
        assert "Ask with search" in found["no_suggestions"]
        with override_settings(DRY_RUN_MOST=1000):
            dry = told(api, row)
        same = found.keys() - {"suggestions", "no_suggestions", "remedies", "no_remedies", "expected_start"}
        assert {name: found[name] for name in same} == {name: dry[name] for name in same}


def test_what_would_start_it_is_searched_for_when_it_is_asked(api: People) -> None:
    row = full(api)[0]
    decide(api)
    with override_settings(DRY_RUN_MOST=1000):
        dry = told(api, row)
    found = told(api, row, "explanation?search=true")
    assert found["suggestions"] == dry["suggestions"]
    assert found["suggestions"]


def test_no_row_of_a_workload_is_read_that_the_answer_is_not_about(api: People) -> None:
    rows = full(api)
    decide(api)
    paths = ["/queue?page_size=1", "/nodes?page_size=1"]
    paths += [f"/workloads/{rows[0]['uid']}/{end}" for end in ("explanation", "eta")]
    for path in paths:
        with CaptureQueriesContext(connection) as seen:
            body_of(api.member.get(path))
        whole = [one["sql"] for one in seen.captured_queries if '"gpu_models"' in one["sql"] and WHOLE in one["sql"]]
        assert not whole, path


def test_before_the_first_round_what_waits_is_not_looked_at_yet(api: People) -> None:
    row = submit(api.member, "early", resources={"gpus": 1})
    assert not RoundView.objects.exists()
    queue = body_of(api.member.get("/queue"))
    assert queue["as_of"] is None
    (only,) = queue["results"]
    assert (only["position"], only["reason"]) == (None, Reason.PENDING_EVALUATION)
    assert only["message"] == "Not looked at yet: no round has ended so far."
    found = told(api, row)
    assert (found["will_start"], found["as_of"], found["checks"]) == (None, None, [])
    assert found["message"] == only["message"]


def test_one_that_came_since_says_when_the_next_round_is_due_and_has_its_place_in_its_team(api: People) -> None:
    full(api)
    decide(api)
    urgent = submit(api.member, "urgent", resources={"gpus": 1}, priority_class="high")
    late = submit(api.member, "late", resources={"gpus": 1})
    rows = {row["name"]: row for row in body_of(api.member.get("/queue"))["results"]}
    assert rows["urgent"]["message"].startswith("Not looked at yet; the next round is due ")
    ours = sorted((row["position"], name) for name, row in rows.items())
    assert ours[0][1] == "urgent"
    assert ours[-1][1] == "late"
    found = told(api, urgent)
    assert (found["will_start"], found["reason"]) == (None, Reason.PENDING_EVALUATION)
    assert 0 <= found["numbers"]["next_round_seconds"] <= 5
    schedule.run_once(api.world.wiring)  # a partial cycle: it is told why it waits, and keeps its place
    found = told(api, urgent)
    assert found["reason"] != Reason.PENDING_EVALUATION
    assert found["will_start"] is False
    decide(api)
    assert whatif.line().turns == whatif.dry_line(snapshot.full()).turns
    assert told(api, late)["as_of"] is not None


def test_what_waits_no_more_leaves_the_queue_at_once_and_the_others_move_up(api: People) -> None:
    rows = full(api)
    decide(api)
    before = {turn.uid: turn.position for turn in whatif.line().turns}
    first = min(before, key=lambda uid: before[uid] or 0)
    owner = api.blue_member if first == rows[3]["uid"] else api.member
    body_of(owner.post(f"/workloads/{first}/stop"))
    after = {turn.uid: turn.position for turn in whatif.line().turns}
    assert first not in after
    assert after == {uid: (place or 0) - 1 for uid, place in before.items() if uid != first}


def test_after_a_takeover_the_next_full_round_replaces_what_was_kept(api: People) -> None:
    full(api)
    decide(api)
    before = RoundView.objects.get()
    api.world.restart()
    decide(api)
    after = RoundView.objects.get()
    assert after.cluster_at > before.cluster_at
    assert whatif.line().turns == whatif.dry_line(snapshot.full()).turns


def test_what_another_version_wrote_is_not_read(api: People) -> None:
    row = full(api)[0]
    decide(api)
    RoundView.objects.update(lineup=zlib.compress(b"[0,[[]],[]]\n"))
    assert kept.newest() is None
    assert told(api, row)["as_of"] is None


def test_where_nodes_have_changed_since_room_is_not_checked(api: People) -> None:
    row = full(api)[0]
    decide(api)
    del api.world.cluster.nodes["b"]
    Node.objects.filter(name="b").delete()
    found = told(api, row)
    assert found["will_start"] is False
    assert [check["status"] for check in found["checks"]] == ["unknown"]


def test_members_see_the_turns_of_their_teams_only(api: People) -> None:
    full(api)
    decide(api)
    assert {row["team"] for row in body_of(api.blue_member.get("/queue"))["results"]} == {"blue"}
    assert {row["team"] for row in body_of(api.member.get("/queue"))["results"]} == {"red"}
    theirs = Workload.objects.get(team=Team.objects.get(name="blue"))
    assert api.member.get(f"/workloads/{theirs.pk}/explanation").status_code == 404


def test_an_expected_start_is_as_it_was_last_worked_out(api: People) -> None:
    row = full(api)[0]
    decide(api)
    assert told(api, row, "eta")["expected_start"] is None
    at = api.world.cluster.at
    StartForecast.objects.create(
        workload=row["uid"], asked_at=at, told_at=at, told_low=at + 60, told_median=at + 120, told_high=at + 300
    )
    found = told(api, row, "eta")
    assert found["expected_start"]["cluster_seconds"]["median"] == at + 120
    assert found["as_of"] is not None
    assert told(api, row)["expected_start"] == found["expected_start"]


def test_what_a_preview_asks_is_the_deciders_snapshot_brought_up_to_date(api: People) -> None:
    rows = full(api)
    for step in range(4):
        decide(api)
        assert same(decider.world(), snapshot.full())
        submit(api.member, f"step-{step}", resources={"gpus": 1})
        assert same(decider.world(), snapshot.full())
    body_of(api.member.post(f"/workloads/{rows[0]['uid']}/stop"))
    assert same(decider.world(), snapshot.full())
    schedule.run_once(api.world.wiring)
    assert same(decider.world(), snapshot.full())
    api.world.restart()
    decide(api)
    assert same(decider.world(), snapshot.full())
    previewed = body_of(api.member.post("/workloads:preview", job("next", resources={"gpus": 1})))
    with override_settings(DRY_RUN_MOST=1000):
        dry = body_of(api.member.post("/workloads:preview", job("next", resources={"gpus": 1})))
    assert previewed == dry


def same(one: Snapshot, other: Snapshot) -> bool:
    """Whether two snapshots say the same; what was asked for of late is counted anew now and then only."""
    assert one.workloads == other.workloads
    assert (one.at, one.inventory.nodes, one.teams, one.quotas) == (
        other.at, other.inventory.nodes, other.teams, other.quotas,
    )  # fmt: skip
    assert np.array_equal(one.columns.gpu, other.columns.gpu)
    assert np.array_equal(one.columns.node, other.columns.node)
    return True
