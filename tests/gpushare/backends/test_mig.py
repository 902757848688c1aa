"""MIG: legal layouts, their exact inverse, and that counting shares counts instances."""

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.backends import mig
from gpushare.backends.gives import Device, NotGiven, Part, part, rounded
from gpushare.gpu import Enforcer, Share

A100 = mig.geometry("NVIDIA-A100-SXM4-40GB", 40960)
A30 = mig.geometry("NVIDIA-A30", 24576)
GPUS = (
    ("NVIDIA-A30", 24258),
    ("NVIDIA-A100-SXM4-40GB", 40960),
    ("NVIDIA-H100-80GB-HBM3", 81559),
    ("NVIDIA-H200", 143771),
)


def legal_layouts(made: mig.Geometry) -> set[tuple[str, ...]]:
    """The multisets of profiles that fit some legal way, by trying every place of every instance."""
    found: set[tuple[str, ...]] = set()
    seen: set[tuple[mig.Instance, ...]] = set()
    queue = [mig.Layout(made)]
    while queue:
        layout = queue.pop()
        if layout.instances in seen:
            continue
        seen.add(layout.instances)
        found.add(tuple(sorted(one.profile.name for one in layout.instances)))
        for profile in made.profiles:
            for start in profile.starts:
                every = tuple(sorted((*layout.instances, mig.Instance(profile, start)), key=lambda one: one.start))
                new = mig.Layout(made, every)
                if new.is_legal:
                    queue.append(new)
    return found


@pytest.mark.parametrize(("model", "memory"), GPUS)
def test_counting_slices_says_exactly_what_fits_an_empty_gpu(model: str, memory: int) -> None:
    """Sums of compute and of memory slices decide it, so the two columns that packing has are enough."""
    made = mig.geometry(model, memory)
    assert made is not None
    legal = legal_layouts(made)
    names = {one.name: one for one in made.profiles}
    for size in range(made.compute + 2):
        for chosen in combinations_with_replacement(sorted(names), size):
            compute, slices = (sum(getattr(names[n], f) for n in chosen) for f in ("compute", "memory"))
            assert (chosen in legal) == (compute <= made.compute and slices <= made.memory), chosen


@given(st.data(), st.sampled_from([A100, A30]))
def test_no_layout_is_ever_illegal_and_release_undoes_acquire(data: st.DataObject, made: mig.Geometry) -> None:
    layout = mig.Layout(made)
    for _ in range(data.draw(st.integers(1, 12))):
        if layout.instances and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(layout.instances))
            before, layout = layout, layout.release(gone)
            assert set(layout.instances) == set(before.instances) - {gone}
        elif (got := layout.acquire(data.draw(st.sampled_from(made.profiles)))) is not None:
            new, instance = got
            assert instance not in layout.instances
            assert new.release(instance) == layout
            layout = new
        assert layout.is_legal


@given(st.data(), st.sampled_from([A100, A30]))
def test_what_has_a_legal_place_gets_one(data: st.DataObject, made: mig.Geometry) -> None:
    layout = mig.Layout(made)
    for profile in data.draw(st.lists(st.sampled_from(made.profiles), max_size=8)):
        got = layout.acquire(profile)
        could = any(
            mig.Layout(made, (*layout.instances, mig.Instance(profile, start))).is_legal for start in profile.starts
        )
        assert (got is not None) == could
        layout = got[0] if got else layout


@given(st.data(), st.sampled_from(GPUS))
def test_shares_that_fit_a_gpu_by_its_columns_are_instances_that_fit_it(
    data: st.DataObject, gpu: tuple[str, int]
) -> None:
    made, device = mig.geometry(*gpu), Device(*gpu)
    assert made is not None
    free, taken = [1000, device.memory], []
    for _ in range(10):
        asked = Share(guarantee := data.draw(st.integers(1, 1000)), guarantee, data.draw(st.integers(0, device.memory)))
        if mig.profile_for(made, asked, device.memory) is None:
            continue
        share = data.draw(st.sampled_from([asked, rounded(asked, device)]))
        told = part(Enforcer.MIG, share, device)
        if isinstance(told, Part) and share.guarantee <= free[0] and share.memory <= free[1]:
            free = [free[0] - share.guarantee, free[1] - share.memory]
            taken.append(told.profile)
    assert tuple(sorted(taken)) in _LEGAL[gpu[0]]


_LEGAL = {model: legal_layouts(made) for model, memory in GPUS if (made := mig.geometry(model, memory))}


@given(st.sampled_from(GPUS), st.integers(1, 1000), st.integers(0, 143771))
def test_a_share_that_is_rounded_up_is_given_and_is_no_smaller(
    gpu: tuple[str, int], guarantee: int, memory: int
) -> None:
    device, made = Device(*gpu), mig.geometry(*gpu)
    share = Share(guarantee, 1000, memory)
    assert made is not None
    if mig.profile_for(made, share, device.memory) is None:
        told = part(Enforcer.MIG, share, device)
        assert isinstance(told, NotGiven)
        assert told.field == "resources.gpu_share.memory"
        return
    up = rounded(share, device)
    assert up.guarantee >= share.guarantee
    assert up.memory >= share.memory
    assert isinstance(part(Enforcer.MIG, up, device), Part)


def test_the_guide_s_layouts_of_an_a100_are_legal_and_others_are_not() -> None:
    assert A100 is not None
    legal = legal_layouts(A100)
    assert ("3g.20gb", "4g.20gb") in legal
    assert ("2g.10gb", "2g.10gb", "3g.20gb") in legal
    assert ("1g.5gb",) * 7 in legal
    assert ("1g.5gb", "3g.20gb", "3g.20gb") not in legal
    assert ("4g.20gb", "4g.20gb") not in legal
    assert ("1g.5gb", "7g.40gb") not in legal


@pytest.mark.parametrize(
    ("profile", "start", "is_legal"),
    [("2g.10gb", 4, True), ("2g.10gb", 6, False), ("1g.10gb", 6, True), ("1g.5gb", 7, False), ("4g.20gb", 4, False)],
)
def test_an_instance_begins_only_where_its_profile_may(profile: str, start: int, is_legal: bool) -> None:
    assert A100 is not None
    assert mig.Layout(A100, (mig.Instance(A100.profile(profile), start),)).is_legal is is_legal


def test_a_new_instance_leaves_room_for_the_large_ones() -> None:
    """A 3g that began at 0 would leave three of the seven 1g places; at 4 it leaves four, and a 4g could not be."""
    assert A100 is not None
    small = A100.profile("1g.5gb")
    layout, first = mig.Layout(A100).acquire(small) or pytest.fail("no room")
    assert first.start >= 4, "the half where a 4g may begin stays free"
    assert layout.acquire(A100.profile("4g.20gb")) is not None


def test_names_follow_the_gpu_s_memory() -> None:
    names = {model: [one.name for one in made.profiles] for model, mib in GPUS if (made := mig.geometry(model, mib))}
    assert names["NVIDIA-H100-80GB-HBM3"] == ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    assert names["NVIDIA-H200"][0] == "1g.18gb"
    assert names["NVIDIA-A30"] == ["1g.6gb", "2g.12gb", "4g.24gb"]
    assert mig.geometry("Tesla-T4", 15360) is None
    assert mig.geometry("NVIDIA-H100", 20480) is None, "a GPU of a size that is not known is not guessed at"
