"""What only saves time in a round: with and without each of these the decisions are the same (a property test).

| shortcut | saves |
|---|---|
| `columns` | a turn for each claimant of a class of which one was refused: they are told so many at once |
| `quota` | a search for victims for each claimant that asks as much quota as one that found none |
| `direct` | places worked out where quota allows none, or where it only matters whether there are; searches for one |

A partial cycle (partial_cycle.py) belongs here as well; its snapshot asks for it (scheduler/model/partial_cycle.py).
What is kept from round to round is in scheduler/state/memo.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """Which are in use."""

    columns: bool = True
    quota: bool = True
    direct: bool = True


ALL = Shortcuts()
NONE = Shortcuts(columns=False, quota=False, direct=False)
EACH_TURN = Shortcuts(columns=False)  # for callers that need the turn of every claimant
