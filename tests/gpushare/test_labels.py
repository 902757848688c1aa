"""Beside whose shares a share may lie: affinity, anti-affinity and exclusion, device by device."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpushare.gpu import NO_LABELS, WHOLE, Labels, Share
from gpushare.neighbours import Beside, open_devices
from gpushare.packing import COMPUTE, Bools, Ints, shares_that_fit, take_share, worst_device


@dataclass
class Devices:
    """Shares on a few devices, by name: a plain count beside the columns."""

    count: int
    on: dict[str, tuple[int, Labels]] = field(default_factory=dict)

    def beside(self, labels: Labels) -> Beside:
        return Beside(
            self._counted(lambda other: other.affinity == labels.affinity),
            self._counted(lambda other: other.anti_affinity == labels.anti_affinity),
            self._counted(lambda other: other.exclusion != labels.exclusion),
        )

    def fresh(self) -> Bools:
        return np.equal(self._counted(lambda other: True), 0)

    def open_to(self, labels: Labels) -> list[int]:
        return np.flatnonzero(open_devices(labels, self.beside(labels), self.fresh())).tolist()

    def _counted(self, holds: object) -> Ints:
        assert callable(holds)
        counts = Counter(device for device, labels in self.on.values() if holds(labels))
        return np.array([counts[device] for device in range(self.count)], dtype=np.int64)


WORDS = st.sampled_from(("", "a", "b"))
LABELS = st.builds(Labels, WORDS, WORDS, WORDS)


def test_without_any_label_all_devices_are_open() -> None:
    assert Devices(3, {"x": (1, NO_LABELS)}).open_to(NO_LABELS) == [0, 1, 2]


def test_an_affinity_keeps_only_devices_that_carry_it() -> None:
    shared = Devices(4, {"x": (1, NO_LABELS), "y": (2, Labels(affinity="a")), "z": (3, Labels(affinity="b"))})
    assert shared.open_to(Labels(affinity="a")) == [2]


def test_the_first_of_an_affinity_takes_a_fresh_device_and_none_beside_others() -> None:
    assert Devices(3, {"x": (1, NO_LABELS)}).open_to(Labels(affinity="a")) == [0, 2]


def test_an_anti_affinity_drops_only_devices_that_carry_the_same_one() -> None:
    shared = Devices(3, {"x": (0, Labels(anti_affinity="a")), "y": (1, Labels(anti_affinity="b"))})
    assert shared.open_to(Labels(anti_affinity="a")) == [1, 2]
    assert shared.open_to(NO_LABELS) == [0, 1, 2]


def test_an_exclusion_keeps_off_others_and_those_without_one_keep_off_it() -> None:
    shared = Devices(4, {"x": (0, Labels(exclusion="a")), "y": (1, Labels(exclusion="b")), "z": (2, NO_LABELS)})
    assert shared.open_to(Labels(exclusion="a")) == [0, 3]
    assert shared.open_to(NO_LABELS) == [2, 3]


def test_the_exclusion_of_each_device_counts_also_after_one_without_a_label() -> None:
    """KubeShare 1.0 stops looking at a node's devices at the first one without a label."""
    shared = Devices(3, {"x": (0, NO_LABELS), "y": (1, Labels(exclusion="b"))})
    assert shared.open_to(Labels(exclusion="a")) == [2]


@given(st.lists(st.tuples(LABELS, st.integers(0, 3)), max_size=12), st.data())
def test_what_goes_only_where_it_is_open_never_breaks_a_rule_and_what_leaves_undoes_it(
    arrivals: list[tuple[Labels, int]], data: st.DataObject
) -> None:
    shared = Devices(4)
    for number, (labels, wanted) in enumerate(arrivals):
        found = shared.open_to(labels)
        if not found:
            continue
        before = {one: shared.open_to(one) for one, _ in arrivals}
        shared.on[f"s{number}"] = (found[wanted % len(found)], labels)
        if data.draw(st.booleans()):
            del shared.on[f"s{number}"]
            assert {one: shared.open_to(one) for one, _ in arrivals} == before
    of_device = [[labels for device, labels in shared.on.values() if device == at] for at in range(4)]
    for there in of_device:
        assert len({labels.exclusion for labels in there}) <= 1
        apart = [labels.anti_affinity for labels in there if labels.anti_affinity]
        assert len(apart) == len(set(apart))
    for label in ("a", "b"):
        assert sum(any(labels.affinity == label for labels in there) for there in of_device) <= 1


def test_shares_with_an_anti_affinity_fit_once_each_on_a_device() -> None:
    free = np.array([[1000, 100], [9000, 9000]], dtype=np.int64)
    share = Share(200, WHOLE, 1000, Labels(anti_affinity="a"))
    assert shares_that_fit(free, share).tolist() == [1, 0]
    take_share(free, 0, share)
    assert shares_that_fit(free, share).tolist() == [0, 0]


def test_worst_fit_is_the_device_that_takes_the_most_of_them() -> None:
    free = np.array([[1000, 800, 900], [3000, 9000, 9000]], dtype=np.int64)
    everywhere = np.ones(3, dtype=np.bool_)
    assert worst_device(free, Share(200, WHOLE, 2000), everywhere) == 2
    assert worst_device(free, Share(200, WHOLE, 2000), np.array([True, True, False])) == 1
    assert worst_device(free, Share(950, WHOLE, 9000), everywhere) is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 9)), min_size=1, max_size=6), st.integers(1, 1000))
def test_worst_fit_leaves_no_less_than_any_other_device(devices: list[tuple[int, int]], guarantee: int) -> None:
    free: Ints = np.array(list(zip(*devices, strict=True)), dtype=np.int64)
    share = Share(guarantee, WHOLE, 0)
    at = worst_device(free, share, np.ones(len(devices), dtype=np.bool_))
    takes = shares_that_fit(free, share)
    if at is None:
        assert not takes.any()
    else:
        assert all(a >= b for a, b in pairwise([free[COMPUTE, at] // guarantee, takes.max()]))
