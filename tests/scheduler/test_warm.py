"""What places work is loaded before a process has to decide."""

import pytest

from scheduler.placement.compiled import HAS_NUMBA
from scheduler.policies.warm import warm

pytestmark = pytest.mark.skipif(not HAS_NUMBA, reason="needs numba")


def test_all_that_is_compiled_and_that_a_round_calls_is_loaded_by_it() -> None:
    from scheduler.placement import loops
    from scheduler.state import passloops

    warm()
    called = [loops.refresh, loops.choose, loops.recount]
    called += [one for one in vars(passloops).values() if getattr(one, "__module__", "") == passloops.__name__]
    assert len(called) > 8
    assert [one.__name__ for one in called if not one.signatures] == []
