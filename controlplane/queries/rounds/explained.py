"""Why one workload waits, by what the newest full round told it: on a large cluster, in place of a round of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from controlplane.queries.rounds import kept, lineup
from controlplane.queries.rounds.lineup import Line, Turn
from controlplane.queries.rounds.world import session_for
from controlplane.queries.scheduling import snapshot
from scheduler.explain.explanation import Check, Explanation, Status, explain_held, explain_kept
from scheduler.explain.growth import is_elastic, size_text
from scheduler.model.cell import CellView
from scheduler.model.decision import Reason
from scheduler.model.workload import Phase, Workload, staying
from scheduler.state.session import Session

OTHER_NODES = "Not checked: the nodes have changed since the last round."
_COMING = (Phase.RESERVED, Phase.ADMITTED, Phase.STARTING)


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of one workload. as_of: the cluster's clock; None: no round has ended. workload None: it has ended.

    is_looked_at: a round has told it something; else the explanation says when the next one is due.
    """

    workload: Workload | None
    found: Explanation | None  # None: what is stored says all
    as_of: float | None
    is_looked_at: bool = True


def of(uid: UUID, view: CellView | None = None) -> Answer:
    """What the newest full round, and partial ones since, left of a workload. view: of the cell in which it is."""
    known = kept.newest(view)
    as_of = None if known is None else known.at
    asked = next(iter(snapshot.workloads_of([uid])), None)
    if asked is None:
        return Answer(None, None, as_of)
    if not asked.is_waiting and asked.phase not in _COMING:
        text = size_text(asked, len(staying(asked))) if is_elastic(asked) else ""
        return Answer(asked, Explanation(asked.id, None, text) if text else None, as_of)
    session = None if known is None else session_for(asked, known, view)
    if asked.phase in _COMING:
        return Answer(asked, None if session is None else explain_held(session, asked), as_of)
    return _waiting(asked, lineup.line(known, view), session)


def _waiting(asked: Workload, line: Line, session: Session | None) -> Answer:
    turns = line.turns
    at = next((number for number, turn in enumerate(turns) if turn.uid == asked.id), None)
    refused = None if at is None else turns[at].refusal
    if at is None or refused is None:
        return Answer(asked, None, line.as_of)
    places = sum(turn.position is not None for turn in turns)
    place = turns[at].position, places
    if refused.reason is Reason.PENDING_EVALUATION:
        found = Explanation(asked.id, *refused, position=place[0], in_queue=places)
        return Answer(asked, found, line.as_of, is_looked_at=False)
    if session is None:
        checks = (Check("Placement", Status.UNKNOWN, OTHER_NODES),)
        found = Explanation(asked.id, *refused, checks=checks, position=place[0], in_queue=places)
        return Answer(asked, found, line.as_of)
    return Answer(asked, explain_kept(session, asked, refused, place, _before(turns[:at], asked)), line.as_of)


def _before(turns: Sequence[Turn], asked: Workload) -> tuple[int, int]:
    """How many places are before it, and how many of them its team has."""
    placed = [turn for turn in turns if turn.position is not None]
    return len(placed), sum(turn.team == asked.team for turn in placed)
