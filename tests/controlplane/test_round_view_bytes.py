"""The view of a round as bytes, and back."""

import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from controlplane.domain.roundview import OtherLayoutError, held_of, lineup_of, pack_held, pack_lineup
from scheduler.model.settings import Settings
from scheduler.model.snapshot import Snapshot
from tests.scheduler.test_round_view import view_of
from tests.strategies import worlds


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(8))
def test_a_view_comes_back_as_it_was(world: Snapshot) -> None:
    view = view_of(world, Settings())
    lineup = lineup_of(pack_lineup(view.lineup))
    assert lineup.seqs.tolist() == view.lineup.seqs.tolist()
    assert lineup.told.tolist() == view.lineup.told.tolist()
    assert lineup.refusals == view.lineup.refusals
    nodes, held, columns = held_of(pack_held(view))
    assert (nodes, held) == (view.nodes, view.held)
    assert np.array_equal(columns.gpu, view.columns.gpu)
    assert np.array_equal(columns.node, view.columns.node)


@pytest.mark.parametrize("packed", [b"", b"x", zlib.compress(b"no line"), zlib.compress(b"[0,[],[]]\n"), b"\x00" * 9])
def test_what_is_of_another_form_is_refused(packed: bytes) -> None:
    with pytest.raises(OtherLayoutError):
        lineup_of(packed)
