"""What elastic gangs hold beyond their count, for planned starts: a head gets it as soon as that is all it lacks.

So a planned start takes it for free, as the head's turn will (actions/take_surplus.py). A gang that holds more or less
of it delays no planned start.
"""

from dataclasses import replace

from scheduler.model.workload import Workload, lent
from scheduler.state.plan import Plan


def lenders(plan: Plan) -> list[Workload]:
    """The gangs that hold any, as they are on the plan."""
    unchanged = [gang for uid, gang in plan.ledger.lending.items() if plan.workload(uid) is gang]
    return [*unchanged, *(one for one in map(plan.workload, plan.changed()) if lent(one))]


def what_is_lent(gang: Workload) -> Workload:
    """The gang with those workers alone."""
    ranks = lent(gang)
    return replace(gang, placement=tuple(a for a in gang.placement if a.rank in ranks))


def what_stays(workload: Workload) -> Workload:
    """The workload without them."""
    ranks = lent(workload)
    return (
        replace(workload, placement=tuple(a for a in workload.placement if a.rank not in ranks)) if ranks else workload
    )
