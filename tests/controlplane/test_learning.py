"""What the scheduler learns from ended workloads, and that stored rounds keep it."""

import pytest

from controlplane.domain.cycle import Frame, digest_of, rebuild
from controlplane.loops.keeper import SnapshotKeeper
from controlplane.models import Team, TeamUse, Workload
from controlplane.queries.scheduling import learning
from controlplane.queries.scheduling.snapshot import full
from controlplane.services.scheduling import changes
from scheduler.model.history import History
from scheduler.model.workload import Kind
from tests.controlplane.state import START, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def ended(world: World, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        made = world.submit(f"j{number}", gpus=2)
        seconds = 100.0 * (number + 1)
        Workload.objects.filter(pk=made.pk).update(
            phase="Succeeded", first_started_at=START, ended_at=START + 9_000_000, attained=round(2000 * seconds),
            expected_seconds=seconds * 2,
        )  # fmt: skip


def test_nothing_is_learnt_from_a_few(world: World) -> None:
    ended(world, 19)
    assert learning.learnt() == History()


def test_running_times_of_all_attempts_and_the_users_mistakes_are_learnt_in_three_statements(
    world: World, django_assert_num_queries
) -> None:
    ended(world, 21)
    with django_assert_num_queries(3):
        learnt = learning.learnt()
    values = learnt.run_seconds(Kind.TRAINING, "red", 2000)
    assert values is not None
    assert (values[0], values[10], values[20]) == (100.0, 1100.0, 2100.0)
    assert set(learnt.ratios) == {0.5}


def test_a_stored_round_has_the_history_it_decided_with(world: World) -> None:
    ended(world, 21)
    keeper = SnapshotKeeper()
    taken = keeper.take(world.lease(), world.cluster.at)
    assert taken.snapshot.history.runs
    again = rebuild([keeper.whole().pack()])
    assert again.history == taken.snapshot.history
    assert digest_of(again) == taken.digest == digest_of(full(world.cluster.at))


def test_what_ended_is_looked_at_again_once_an_hour_and_decayed_use_every_ten_minutes(world: World) -> None:
    keeper, lease = SnapshotKeeper(), world.lease()
    TeamUse.objects.create(team=Team.objects.get(name="red"), pool="gpu", at=START)
    known, used = [], []
    for minutes, more in ((0, 19), (10, 2), (20, 100), (69, 0), (80, 0)):
        ended(world, more, first=1000 * minutes)
        TeamUse.objects.update(stated=1 + minutes)
        changes.touch(Workload.objects.values_list("pk", flat=True)[:1])
        taken = keeper.take(lease, START + 60.0 * minutes).snapshot
        known.append(taken.history)
        used += [use.milli for use in taken.use]
    assert not known[0].runs  # too few: so it is looked for again each time
    assert known[1].runs
    assert known[1] is known[2] is known[3]
    assert known[4].runs != known[3].runs
    assert used == [1, 11, 21, 70, 81]


def test_what_is_known_of_nodes_teams_and_quotas_is_kept_as_long_as_they_are_the_same(world: World) -> None:
    keeper, lease = SnapshotKeeper(), world.lease()
    trees = []
    for minutes in (0, 10, 20):
        if minutes == 20:
            world.cluster.change("b", lost=(1,))
            world.observe()
        world.submit(f"at-{minutes}")
        trees.append(keeper.memo.ledgers.of(keeper.take(lease, START + 60.0 * minutes).snapshot).tree)
    assert trees[0] is trees[1] is not trees[2]


def test_a_frame_without_history_is_one_of_an_earlier_version() -> None:
    assert Frame.of("[[],[],[]]") == Frame((), (), ())
