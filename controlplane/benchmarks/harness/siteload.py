"""The work of a site (site.py): gangs, elastic gangs, priorities, and a team that borrows what another one owns.

What runs fills the quotas to the last GPU, so that what waits has to wait: `steady` owns its GPUs and may not borrow,
`borrower` owns none and holds those of `owner`. `fresh` has room for all that comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpushare.gpu import WHOLE
from scheduler.model.team import Quota

POOL = "a100"
GPUS = 8  # of a node
SPARE_GPUS = 1200  # a multiple of that, for what is submitted meanwhile: nothing of it ends
STEADY, BORROWER, OWNER, FRESH = TEAMS = ("steady", "borrower", "owner", "fresh")
WORKERS = (1, 1, 1, 2, 1, 1, 3, 1, 1, 1)  # of one in ten each; those of two may go on with one
OF_BORROWER = 0.2
OF_OWNER = 0.1

Job = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Load:
    """So many workloads that run, and so many that are submitted once those run, and wait."""

    running: int
    waiting: int

    def first(self) -> Sequence[Job]:
        """What runs."""
        return [
            _job(f"{team}-{number}", team, number, "low" if number % 5 == 0 else "normal")
            for team, count in self._counts().items()
            for number in range(count)
        ]

    def then(self) -> Sequence[Job]:
        """What waits: of no higher priority than anything that runs."""
        return [_waiting(number) for number in range(self.waiting)]

    def quotas(self) -> tuple[Quota, ...]:
        """Exactly what runs, and the room for what comes."""
        held = {team: sum(_workers(number) for number in range(count)) for team, count in self._counts().items()}
        spare = SPARE_GPUS + -sum(held.values()) % GPUS  # all of the last node: what no team owns may be borrowed
        return (
            Quota(STEADY, POOL, held[STEADY] * WHOLE, borrowing=0, lending=0),
            Quota(BORROWER, POOL, 0),
            Quota(OWNER, POOL, (held[OWNER] + held[BORROWER]) * WHOLE, borrowing=0),
            Quota(FRESH, POOL, spare * WHOLE, borrowing=0, lending=0),
        )

    @property
    def nodes(self) -> int:
        """All that the site needs."""
        return sum(quota.nominal for quota in self.quotas()) // WHOLE // GPUS

    def _counts(self) -> dict[str, int]:
        borrower, owner = round(self.running * OF_BORROWER), round(self.running * OF_OWNER)
        return {STEADY: self.running - borrower - owner, BORROWER: borrower, OWNER: owner}


def coming(number: int) -> Job:
    """The n-th job that comes meanwhile: in ten, one takes back what was lent, one preempts, one is a gang."""
    match number % 10:
        case 3:
            return _job(f"back-{number}", OWNER, 0, "normal")
        case 6:
            return _job(f"high-{number}", STEADY, 0, "high")
        case 8:
            return _job(f"gang-{number}", FRESH, 3, "normal")
    return _job(f"fresh-{number}", FRESH, 0, "normal")


def _waiting(number: int) -> Job:
    return _job(f"waits-{number}", BORROWER if number % 3 == 0 else STEADY, number, "low")


def _workers(number: int) -> int:
    return WORKERS[number % len(WORKERS)]


def _job(name: str, team: str, number: int, priority: str) -> Job:
    count = _workers(number)
    return {
        "type": "training",
        "name": name,
        "team": team,
        "priority_class": priority,
        "image": "example/train:1",
        "workers": {"count": count, "min": 1 if count == 2 else count},
        "resources": {"gpus": 1, "cpu": "1", "memory": "1Gi"},
    }
