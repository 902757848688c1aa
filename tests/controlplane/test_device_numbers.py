"""Measured devices get Weft's numbers by the pods that have them; what is not clear is not known."""

from controlplane.cluster.devicenumbers import Holder, numbered, placeholder
from controlplane.cluster.port import GpuUse

Told = tuple[int, int, tuple[str, ...] | None]  # number of the device, its memory, by which we know it again; its pods


def uses(*told: Told) -> list[GpuUse]:
    return [GpuUse("a", index, 0.5, memory, pods) for index, memory, pods in told]


def whole(pod: str, *gpus: int) -> Holder:
    return Holder(pod, "a", gpus, is_whole=True)


def shares(gpu: int) -> Holder:
    """What holds a device for the shares on it."""
    return Holder(placeholder("a", gpu), "a", (gpu,), is_whole=False)


def memories(told: list[GpuUse], *holders: Holder) -> dict[int, int]:
    """Whose memory each of Weft's numbers gets."""
    found = numbered(told, holders)
    assert len({use.index for use in found}) == len(found)
    assert all(use.pods is None for use in found)
    return {use.index: use.memory for use in found}


def test_a_worker_gets_what_its_own_devices_measure_whatever_their_numbers_are() -> None:
    told = uses((0, 10, ("b",)), (1, 11, ()), (2, 12, ("a",)), (3, 13, ("a",)))
    assert memories(told, whole("a", 0, 1), whole("b", 2)) == {0: 12, 1: 13, 2: 10, 3: 11}


def test_numbers_that_are_wefts_own_already_stay() -> None:
    assert memories(uses((0, 10, None), (1, 11, None)), whole("a", 0)) == {0: 10, 1: 11}


def test_a_device_of_a_pod_that_has_left_is_free() -> None:
    assert memories(uses((0, 10, ("old",)), (1, 11, ("a",))), whole("a", 0)) == {0: 11, 1: 10}


def test_of_a_worker_that_has_no_device_by_the_exporter_nothing_is_known() -> None:
    assert memories(uses((0, 10, ()), (1, 11, ())), whole("a", 0)) == {1: 11}
    assert memories(uses((0, 10, ("a",)), (1, 11, ())), whole("a", 0, 1)) == {0: 10}


def test_a_device_that_two_workers_are_said_to_have_is_not_known() -> None:
    assert memories(uses((0, 10, ("a", "b")), (1, 11, ("b",))), whole("a", 0), whole("b", 1)) == {1: 11}


def test_a_worker_that_is_said_to_have_more_than_it_has_is_not_known() -> None:
    assert memories(uses((0, 10, ("a",)), (1, 11, ("a",)), (2, 12, ("b",))), whole("a", 0), whole("b", 1)) == {1: 12}


def test_shares_are_measured_on_the_device_that_their_placeholder_was_given() -> None:
    told = uses((0, 10, ("w",)), (1, 11, ()), (2, 12, ("a-gpu-0",)), (3, 13, ("a-gpu-1",)))
    assert memories(told, shares(0), shares(1), whole("w", 2)) == {0: 12, 1: 13, 2: 10, 3: 11}


def test_a_device_that_a_placeholder_and_a_worker_are_said_to_have_is_not_known() -> None:
    assert memories(uses((0, 10, ("w", "a-gpu-1")), (1, 11, ())), whole("w", 0), shares(1)) == {}


def test_shares_whose_placeholder_is_not_named_are_known_by_their_number_unless_another_has_that_device() -> None:
    told = uses((0, 10, ()), (1, 11, ("a",)), (2, 12, ()))
    assert memories(told, whole("a", 1), shares(0)) == {0: 10, 1: 11, 2: 12}
    assert memories(told, whole("a", 0), shares(1)) == {0: 11, 2: 12}  # 0 measures a stranger, 1 is not known


def test_nodes_have_numbers_of_their_own() -> None:
    told = [GpuUse("a", 0, 0.5, 10, ("w",)), GpuUse("b", 0, 0.5, 20, ("w",))]
    assert [(u.node, u.index, u.memory) for u in numbered(told, [whole("w", 1)])] == [("a", 1, 10), ("b", 0, 20)]
