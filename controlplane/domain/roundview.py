"""The view of a full round as bytes, in two parts: the line-up of the queue, and what is held. Free of the database.

A part is zlib over a line of JSON and the numbers of arrays as they lie in memory, so that a round of 50,000 GPUs packs
it in a hundredth of a second. LAYOUT is its first word: what another version of Weft wrote is not read.
"""

import json
import zlib
from typing import Any

import numpy as np

from scheduler.explain.roundview import Lineup, RoundView
from scheduler.fit.capacity import Refusal
from scheduler.model.decision import Reason
from scheduler.model.snapshot import Columns, Ints
from scheduler.quota.tree import Held

LAYOUT = 1  # raise it when a part is written otherwise
_LEVEL = 1
_NARROW = np.dtype("<i4")


class OtherLayoutError(ValueError):
    """A part was written by another version of Weft: the next full round writes it anew."""


def pack_lineup(lineup: Lineup) -> bytes:
    """The order of the queue and what each in it was told."""
    refusals = [(str(told.reason), told.message, told.numbers) for told in lineup.refusals]
    return _packed([refusals], lineup.seqs, lineup.told)


def lineup_of(packed: bytes) -> Lineup:
    """What `pack_lineup` packed. Raises OtherLayoutError."""
    (refusals,), (seqs, told) = _unpacked(packed)
    found = (
        Refusal(Reason(reason), message, tuple((name, value) for name, value in numbers))
        for reason, message, numbers in refusals
    )
    return Lineup(seqs, told, tuple(found))


def pack_held(view: RoundView) -> bytes:
    """What is held: by teams, of nodes and of devices. Most is held now and later alike, so the second is a change."""
    gpu, node = view.columns.gpu, view.columns.node
    return _packed([view.nodes, view.held], gpu[0], gpu[1] - gpu[0], node[0], node[1] - node[0])


def held_of(packed: bytes) -> tuple[tuple[str, ...], Held, Columns]:
    """The nodes, what teams hold, the columns: what `pack_held` packed. Raises OtherLayoutError."""
    (nodes, held), (gpu, gpu_change, node, node_change) = _unpacked(packed)
    columns = Columns(np.stack([gpu, gpu + gpu_change]), np.stack([node, node + node_change]))
    return tuple(nodes), tuple((team, bool(soft), pool, when, milli) for team, soft, pool, when, milli in held), columns


def _packed(words: Any, *arrays: Ints) -> bytes:
    head = json.dumps([LAYOUT, words, [array.shape for array in arrays]], separators=(",", ":"), ensure_ascii=False)
    parts = (head.encode(), b"\n", *(np.ascontiguousarray(array, dtype=_NARROW).tobytes() for array in arrays))
    return zlib.compress(b"".join(parts), level=_LEVEL)


def _unpacked(packed: bytes) -> tuple[Any, list[Ints]]:
    try:
        whole = zlib.decompress(packed)
        end = whole.index(b"\n")
        layout, *rest = json.loads(whole[:end])
    except (zlib.error, ValueError, TypeError) as error:
        raise OtherLayoutError("It is not of this form.") from error
    if layout != LAYOUT:
        raise OtherLayoutError(f"It has layout {layout}, not {LAYOUT}.")
    words, shapes = rest
    arrays, at = list[Ints](), end + 1
    for shape in shapes:
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(whole, _NARROW, count, at).astype(np.int64).reshape(shape))
        at += count * _NARROW.itemsize
    return words, arrays
