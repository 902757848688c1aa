"""What each back-end guarantees, which one a node has, and which shares it can give."""

import pytest

from gpushare.backends import catalogue
from gpushare.backends.gives import Device, NotGiven, Part, part
from gpushare.gpu import Enforcer, Share

A100 = Device("NVIDIA-A100-SXM4-40GB", 40960)


def test_every_enforcer_has_a_row_and_none_was_tried_on_a_gpu() -> None:
    assert set(catalogue.BACKENDS) == set(Enforcer)
    assert not any(row.is_verified for row in catalogue.BACKENDS.values())


@pytest.mark.parametrize(
    ("pool", "says", "enforces", "expected"),
    [
        ("", "", False, "advisory"),
        ("", "", True, "back-end"),
        ("mig", "", False, "mig"),
        ("mig", "", True, "mig"),
        ("mig", "time-slicing", False, "time-slicing"),
        ("", "hami", False, "hami"),
        ("weft", "", False, "advisory"),
        ("weft", "", True, "weft"),
        ("weft", "weft", False, "weft"),
    ],
)
def test_a_node_s_own_word_goes_before_its_pool_s(pool: str, says: str, enforces: bool, expected: str) -> None:
    assert catalogue.enforcer_of(pool, says, enforces=enforces) == expected


def test_only_what_follows_a_limit_lets_it_be_raised() -> None:
    assert {one.value for one in Enforcer if catalogue.follows(one)} == {"back-end", "weft", "on-demand"}


@pytest.mark.parametrize(
    ("enforcer", "demands", "expected"),
    [
        (Enforcer.MIG, ("memory", "time", "faults"), ()),
        (Enforcer.MIG, ("mps",), ("mps",)),
        (Enforcer.MPS, ("memory", "faults"), ("faults",)),
        (Enforcer.HAMI, ("memory", "hami"), ()),
        (Enforcer.TIME_SLICING, ("time",), ("time",)),
        (Enforcer.BACK_END, ("memory",), ("memory",)),
        (Enforcer.ADVISORY, (), ()),
    ],
)
def test_demands_are_met_by_guarantee_or_by_name(
    enforcer: Enforcer, demands: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert catalogue.unmet(enforcer, demands) == expected
    assert catalogue.meets(enforcer, demands) is (not expected)


def test_demands_in_words() -> None:
    assert catalogue.demands_text(("memory", "faults", "mig")) == "memory and faults, by mig"
    assert catalogue.demands_text(("mps",)) == "by mps"


@pytest.mark.parametrize("enforcer", [Enforcer.MPS, Enforcer.HAMI, Enforcer.DRA])
def test_what_counts_in_percent_refuses_parts_of_one_and_shares_without_memory(enforcer: Enforcer) -> None:
    assert part(enforcer, Share(250, 500, 4096), A100) == Part(25, 4096)
    told = part(enforcer, Share(142, 142, 4096), A100)
    assert isinstance(told, NotGiven)
    assert told.field == "resources.gpu_share.guarantee"
    assert "Ask for a guarantee of 0.15." in told.sentence
    told = part(enforcer, Share(250, 250, 0), A100)
    assert isinstance(told, NotGiven)
    assert told.field == "resources.gpu_share.memory"


def test_a_share_that_is_no_mig_instance_is_told_the_next_one_up() -> None:
    told = part(Enforcer.MIG, Share(100, 100, 4096), A100)
    assert isinstance(told, NotGiven)
    assert told.sentence.endswith("is 1g.5gb. Ask for all of it: a guarantee of 0.142 and 4864Mi of memory.")
    assert part(Enforcer.MIG, Share(142, 142, 4864), A100) == Part(14, 4864, "1g.5gb")
    assert isinstance(part(Enforcer.MIG, Share(142, 142, 4864), Device("Tesla-T4", 15360)), NotGiven)


@pytest.mark.parametrize("enforcer", [Enforcer.ADVISORY, Enforcer.BACK_END, Enforcer.TIME_SLICING, Enforcer.WEFT])
def test_the_others_give_every_share(enforcer: Enforcer) -> None:
    assert isinstance(part(enforcer, Share(1, 1000, 0), A100), Part)
