"""What the scheduler learns from ended workloads, and that stored rounds keep it."""

import pytest

from controlplane.cycle import Frame, digest_of, rebuild
from controlplane.models import Workload
from controlplane.queries import learning
from controlplane.queries.snapshot import SnapshotKeeper, full
from scheduler.history import History
from scheduler.workload import Kind
from tests.controlplane.state import START, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    return World()


def ended(world: World, count: int) -> None:
    for number in range(count):
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


def test_a_frame_without_history_is_one_of_an_earlier_version() -> None:
    assert Frame.of("[[],[],[]]") == Frame((), (), ())
