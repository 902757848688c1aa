"""The columns of those that wait."""

from dataclasses import replace

import numpy as np

from scheduler.state.pending import EQUIVALENCE, MAX_NUMBERS, PRIORITY, SEQ, TEXT, PendingQueue, equivalence_of
from tests.worlds import parse


def test_texts_that_nobody_is_told_any_more_are_forgotten_and_nothing_else() -> None:
    world = parse("node a 1 gpus   team red nominal 1   w red training 1 pending   x red training 2 priority 3 pending")
    pending = PendingQueue(2)
    for workload in world.workloads.values():
        pending.exchange(None, workload)
    told = world.workloads["w"]
    for number in range(MAX_NUMBERS + 8):
        later = replace(told, message=f"The best node has {number} free.")
        pending.exchange(told, later)
        told = later
    fresh = pending.copy()
    for uid, slot in fresh.slot.items():
        workload = fresh.workload(slot)
        assert workload.id == uid
        assert fresh.equivalence(slot) == pending.equivalence(slot) == equivalence_of(workload)[0]
        assert fresh.known(fresh.equivalence(slot)) == fresh.ints[slot, EQUIVALENCE]
        assert fresh.known((workload.reason, workload.message)) == fresh.ints[slot, TEXT]
        assert np.array_equal(fresh.ints[slot, [SEQ, PRIORITY]], pending.ints[slot, [SEQ, PRIORITY]])
    old = "", "The best node has 7 free."
    assert (pending.known(old) >= 0, fresh.known(old)) == (True, -1)


def test_what_a_copy_changes_is_not_changed_in_the_line_it_was_copied_from() -> None:
    world = parse("node a 1 gpus   team red nominal 1   w red training 1 pending")
    pending, workload = PendingQueue(1), world.workloads["w"]
    pending.exchange(None, workload)
    other = pending.copy()
    other.exchange(workload, None)
    assert (pending.slot, pending.waits[0], other.slot, other.waits[0]) == ({"w": 0}, True, {}, False)
