"""The smallest changes that would start what waits: each kind in a world of its own, and what holds in every world."""

import pytest
from hypothesis import HealthCheck, event, given, settings

from scheduler.cycle.schedule import schedule
from scheduler.explain.change import Change, ChangeKind, Choice, PriorityOffer, asking, changed
from scheduler.explain.dry_run import DryRuns, may_wait
from scheduler.explain.suggestions import GATES, Suggestion, confirmed, suggestions, untold
from scheduler.model.decision import Place, Reason
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from scheduler.policies import POLICIES
from tests.strategies import worlds
from tests.worlds import parse

RULES = Settings()
OFFERS = (PriorityOffer("high", 100), PriorityOffer("urgent", 200, preemptible=False))
K = ChangeKind

# A world in which `w` waits, the kind of change, and the sentence that says it.
CASES = {
    "fewer workers": (
        "node a 4 gpus   team red nominal 8   x red training 1 firm running a   w red training 1 x 5 pending",
        K.WORKERS,
        "Request 3 workers instead of 5.",
    ),
    "a lower minimum of an elastic gang": (
        "node a 4 gpus   team red nominal 8   x red training 2 firm running a   w red training 1 x 3..4 pending",
        K.WORKERS,
        "Let it start with 2 workers instead of 3 (workers.min).",
    ),
    "fewer GPUs": (
        "node a,b 4 gpus   team red nominal 8   x red training 2 firm running a   y red training 1 firm running b\n"
        "w red training 4 pending",
        K.GPUS,
        "Request 3 GPUs instead of 4 for each worker.",
    ),
    "a smaller share": (
        "node a 1 gpus   team red nominal 8   x red notebook share 0.63 firm running a\n"
        "w red training share 0.5 pending",
        K.SHARE,
        "Request 0.37 of a GPU instead of 0.5 for each worker.",
    ),
    "less GPU memory": (
        "node a 1 gpus memory 16000   team red nominal 8   w red training 1 gpumem 20000 pending",
        K.GPU_MEMORY,
        "Request 15872 MiB of GPU memory instead of 20000 for each worker.",
    ),
    "fewer cores": (
        "node a 1 gpus cpu 8   team red nominal 8   w red training 1 cpu 10 pending",
        K.CPU,
        "Request 8 cores instead of 10 for each worker.",
    ),
    "less memory": (
        "node a 1 gpus ram 5000   team red nominal 8   w red training 1 ram 6000 pending",
        K.MEMORY,
        "Request 4096 MiB of memory instead of 6000 for each worker.",
    ),
    "another GPU model": (
        "node a 1 gpus model t4   node b 1 gpus model l4 memory 8000   team red nominal 8\n"
        "w red training 1 models h100 pending",
        K.MODEL,
        "Allow l4 in addition to h100.",
    ),
    "a looser level": (
        "node a,b 1 gpus rack r zone z   team red nominal 8   w red training 1 x 2 require node pending",
        K.TOPOLOGY,
        "Require one rack instead of one node.",
    ),
    "no level": (
        "node a 1 gpus zone y   node b 1 gpus zone z   team red nominal 8   w red training 1 x 2 require zone pending",
        K.TOPOLOGY,
        "Do not require that its workers are in one zone.",
    ),
    "more quota": (
        "node a 8 gpus   team red nominal 2   w red training 4 firm pending",
        K.NOMINAL,
        "Raise the nominal quota of team red in pool gpu from 2 to 4 GPUs.",
    ),
    "a higher borrowing limit": (
        "node a 8 gpus   team red nominal 2 borrowing 0   w red training 4 pending",
        K.BORROWING,
        "Raise the borrowing limit of team red in pool gpu from 0 to 2 GPUs.",
    ),
    "a higher borrowing limit of the team above": (
        "node a 8 gpus   team org nominal 2 borrowing 0   team red parent org   w red training 4 pending",
        K.BORROWING,
        "Raise the borrowing limit of team org in pool gpu from 0 to 2 GPUs.",
    ),
    "a higher priority": (
        "node a 1 gpus   team red nominal 8   x red training 1 priority 100 running a   w red training 1 pending",
        K.PRIORITY,
        "Give it priority class urgent (200 instead of 0).",
    ),
    "a stop, of the one that loses least": (
        "node a,b 1 gpus   team red nominal 8   x red training 1 firm started 0 running a\n"
        "y red training 1 firm started 96460 running b   w red training 1 pending",
        K.STOP,
        "Stop [[w:y]], which loses 1 GPU-hour of work.",
    ),
}


def found(world: Snapshot, uid: str = "w") -> dict[ChangeKind, Suggestion]:
    return {suggestion.kind: suggestion for suggestion in suggestions(world, uid, RULES, OFFERS)}


def is_placed(world: Snapshot, uid: str) -> bool:
    return any(isinstance(d, Place) and d.workload == uid for d in schedule(world, RULES))


@pytest.mark.parametrize("name", CASES)
def test_each_kind_of_change_is_found_and_said(name: str) -> None:
    text, kind, sentence = CASES[name]
    world = parse(text)
    suggestion = found(world)[kind]
    assert (suggestion.text, suggestion.tested, suggestion.is_smallest) == (sentence, True, True)
    assert not is_placed(world, "w")
    assert is_placed(changed(world, "w", suggestion.change), "w")


def test_every_kind_has_a_world() -> None:
    assert {kind for _, kind, _ in CASES.values()} == set(ChangeKind)


def test_what_starts_anyway_needs_no_change() -> None:
    assert found(parse("node a 1 gpus   team red nominal 1   w red training 1 pending")) == {}


@pytest.mark.parametrize("gate", ["unmet data", "notbefore 200000"])
def test_no_change_of_ours_opens_a_gate(gate: str) -> None:
    assert found(parse(f"node a 1 gpus   team red nominal 1   w red training 1 {gate} pending")) == {}


def test_who_has_a_place_and_who_runs_get_none() -> None:
    world = parse(
        "node a 1 gpus   team red nominal 4   x red training 1 leaving a   w red training 1 reserved a:0 after x"
    )
    assert found(world, "w") == found(world, "x") == {}


def test_who_does_not_exist_cannot_be_helped() -> None:
    with pytest.raises(KeyError):
        suggestions(parse("node a 1 gpus   team red nominal 1"), "nobody", RULES)


def test_a_change_that_only_makes_room_for_those_who_go_first_is_none() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 4
        x red training 1 firm running a   y red training 1 firm running a
        v red training 1 pending   w red training 1 pending
    """)
    assert K.STOP not in found(world)
    assert found(world, "v")[K.STOP].change.target in ("x", "y")


def test_a_service_that_wants_more_replicas_is_helped_by_room_and_quota_alone() -> None:
    world = parse("""
        node a 2 gpus   team red nominal 1 borrowing 0
        s red inference 1 x 2 running a:0   x red notebook firm running a
    """)
    assert set(found(world, "s")) == {K.NOMINAL, K.BORROWING}


def test_nobody_is_offered_more_quota_than_the_pool_has() -> None:
    world = parse(
        "node a 2 gpus   team red nominal 2   x red training 2 firm running a   w red training 1 firm pending"
    )
    assert K.NOMINAL not in found(world)


def test_without_steps_left_a_change_is_not_called_the_smallest() -> None:
    text = "node a 8 gpus   team red nominal 1   w red training 8 firm pending"
    dry_runs = DryRuns(parse(text), "w", RULES)
    (suggestion,) = (
        r for r in suggestions(parse(text), "w", RULES, OFFERS, max_steps=dry_runs.steps + 30) if r.kind is K.NOMINAL
    )
    assert (suggestion.tested, suggestion.is_smallest) == (True, False)
    assert found(parse(text))[K.NOMINAL].is_smallest


def test_looking_changes_nothing() -> None:
    world = parse("node a 1 gpus   team red nominal 1   x red training 1 running a   w red training 1 pending")
    before = schedule(world, RULES)
    first, again = found(world), found(world)
    assert first == again
    assert schedule(world, RULES) == before


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_every_stated_change_starts_it_in_the_next_round(world: Snapshot) -> None:
    for workload in world.workloads.values():
        for suggestion in suggestions(world, workload.id, RULES, OFFERS):
            event(suggestion.kind.value)
            assert is_placed(changed(world, workload.id, suggestion.change), workload.id)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_dry_run_says_what_a_whole_round_says(world: Snapshot) -> None:
    for workload in filter(may_wait, world.workloads.values()):
        dry_runs = DryRuns(world, workload.id, RULES)
        for change in (
            Change(K.PRIORITY, workload.priority, 150),
            Change(K.CPU, workload.ask.cpu_milli, 500),
            Change(K.GPUS, workload.ask.gpus, 1) if workload.ask.gpus else Change(K.TOPOLOGY, "node", "any"),
            Change(K.WORKERS, workload.gang.min, 1),
        ):
            other = asking(workload, change)
            whole = is_placed(world.replace(changed=(other,)), workload.id)
            assert dry_runs.starts_with(other) == dry_runs.starts_in(world.replace(changed=(other,))) == whole


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_policy_tells_changes_or_says_that_it_does_not(policy: str) -> None:
    world, rules = parse(CASES["fewer workers"][0]), Settings(policy=policy)
    why = untold(rules, Reason.WAITING_FOR_CAPACITY)
    assert bool(suggestions(world, "w", rules)) == (policy == "weft")
    assert f"and {policy} is in use" in why or policy == "weft"
    assert all("Neither capacity nor quota" in untold(rules, gate) for gate in GATES)  # whatever the policy
    assert untold(rules, None) == ""


@pytest.mark.parametrize("case", CASES)
def test_what_was_found_does_when_it_is_named(case: str) -> None:
    text, kind, _ = CASES[case]
    world = parse(text)
    (found,) = [one for one in suggestions(world, "w", RULES, OFFERS) if one.kind is kind]
    change = found.change
    named = Choice(kind, str(change.after), change.target, change.pool)
    assert confirmed(world, "w", named, RULES, OFFERS) == change
    for other in (Choice(kind, "-1", "nobody"), Choice(kind, f"{change.after}", "nobody", "nowhere")):
        assert confirmed(world, "w", other, RULES, OFFERS) is None
    assert confirmed(world, "w", named, Settings(policy="fifo"), OFFERS) is None


def test_a_change_that_is_too_small_does_not_and_a_larger_one_does() -> None:
    world = parse("node a 4 gpus   team red nominal 8   x red training 1 firm running a   w red training 4 pending")
    assert [bool(confirmed(world, "w", Choice(K.GPUS, str(n)), RULES)) for n in (4, 3, 2, 1, 0)] == [
        False, True, True, True, False,
    ]  # fmt: skip
