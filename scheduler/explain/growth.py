"""With how many workers an elastic gang runs, and why it gets no more: on demand, on a copy, never inside a round."""

from scheduler.model.workload import Kind, Phase, Workload, can_grow, most, staying
from scheduler.policies import WEFT
from scheduler.preemption.growth import Growth, Refused
from scheduler.state.session import Session


def is_elastic(workload: Workload) -> bool:
    """Whether it is a running gang that can do with more workers or with fewer."""
    is_up = workload.kind is Kind.TRAINING and workload.phase in (Phase.RUNNING, Phase.SCALING)
    return is_up and workload.gang.min < most(workload)


def growth_text(session: Session, refused: Refused, asked: Workload) -> str:
    """What to say of an elastic gang, once all claimants of a round had their turn on the session's plan."""
    gang = session.plan.workload(asked.id)
    return f"{size_text(gang, len(staying(asked)))} {_further(session, refused, gang)}"


def size_text(gang: Workload, now: int) -> str:
    """With how many workers an elastic gang runs, of how many."""
    count, limit = gang.gang.count, most(gang)
    return f"It runs with {now} of at most {limit} workers; it asked for {count}, and its minimum is {gang.gang.min}."


def _further(session: Session, refused: Refused, gang: Workload) -> str:
    """Why it gets no more workers, or how many it gets."""
    if gang is not session.snapshot.workloads[gang.id]:
        return "The next round has it give workers to a workload that waits, or leave."
    if len(staying(gang)) >= most(gang):
        return "It has all that it can use."
    if gang.finishing:
        return "One of its workers is done, so no more join."
    if not can_grow(gang):
        return "The number of its workers is changing."
    if session.settings.policy != WEFT:
        return ""
    return _in_next_round(session, refused, gang)


def _in_next_round(session: Session, refused: Refused, gang: Workload) -> str:
    if session.is_full:
        return "The next round reaches its limit of changes before it looks at gangs that could grow."
    growth = Growth(session, refused)
    for one in growth.in_order():
        places = growth.places(one)
        if one.id == gang.id:
            return places if isinstance(places, str) else f"The next round gives it {len(places)} more."
        if not isinstance(places, str):
            session.plan.place(one, places)
    return ""
