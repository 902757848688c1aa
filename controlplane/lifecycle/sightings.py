"""What a look at the cluster means for workers that it does not show, and for pods that should not be there."""

from collections.abc import Callable, Collection, Iterable, Sequence

from controlplane.cluster.port import ALIVE, Observation, PodPhase, PodSeen
from controlplane.lifecycle.changes import Changes, Command
from controlplane.lifecycle.state import LEAVING, Seat, State

STOP_AGAIN_SECONDS = 60.0  # over its grace; then a worker that lives on is told to stop once more

Attempt = tuple[str, int]  # a workload's id and the number of the attempt


def by_workload(pods: Iterable[PodSeen]) -> dict[str, list[PodSeen]]:
    """Pods by the id of their workload."""
    found: dict[str, list[PodSeen]] = {}
    for pod in pods:
        found.setdefault(pod.workload, []).append(pod)
    return found


def add_missing(
    changes: Changes,
    observation: Observation,
    pods: dict[str, list[PodSeen]],
    started_lately: Callable[[Collection[State]], Collection[Attempt]],
) -> None:
    """Add a GONE for each worker whose node is gone, or whose pod a full observation does not list.

    Not for one whose start was not performed, or so recently that the observation may be older: `started_lately` tells
    of which of these workloads, and in which attempt.
    """
    missing = [
        (row, seat, "NodeLost" if seat.node in observation.gone_nodes else "Disappeared")
        for row in changes.rows.values()
        for seat in _unlisted(changes, row, pods.get(row.id, ()))
        if observation.is_full or seat.node in observation.gone_nodes
    ]
    recent = started_lately({row.id: row for row, _, _ in missing}.values()) if missing else ()
    for row, seat, reason in missing:
        if (row.id, seat.attempt) in recent and reason != "NodeLost":
            continue
        gone = PodSeen(row.id, seat.attempt, seat.rank, seat.node, (), PodPhase.GONE, reason=reason)
        pods.setdefault(row.id, []).append(gone)


def _unlisted(changes: Changes, row: State, pods: Iterable[PodSeen]) -> Sequence[Seat]:
    listed = {(pod.attempt, pod.rank) for pod in pods}
    return [s for s in changes.live(row) if s.bound_at is not None and (s.attempt, s.rank) not in listed]


def stop_strangers(
    changes: Changes, observation: Observation, is_ours: Callable[[str], bool], stopped_lately: Collection[Attempt]
) -> int:
    """Stop live pods that no place knows, and stop again those that were told to leave and did not; tell how many.

    is_ours: whether the id may be one of a workload; stopped_lately: what was told to stop and may still take its time.
    """
    wanted: dict[Attempt, list[int]] = {}
    places: dict[str, dict[tuple[int, int], Seat]] = {}
    strangers = 0
    for pod in observation.pods:
        if pod.phase not in ALIVE or not is_ours(pod.workload) or (pod.workload, pod.attempt) in stopped_lately:
            continue
        if pod.workload not in places:
            row = changes.rows.get(pod.workload)
            places[pod.workload] = {(s.attempt, s.rank): s for s in changes.live(row)} if row else {}
        seat = places[pod.workload].get((pod.attempt, pod.rank))
        strangers += seat is None
        if seat is None or seat.state == LEAVING:
            wanted.setdefault((pod.workload, pod.attempt), []).append(pod.rank)
    for (uid, attempt), ranks in sorted(wanted.items()):
        row = changes.rows.get(uid)
        grace = row.grace_seconds if row else 0.0
        changes.commands.append(Command("stop", uid, attempt, {"ranks": sorted(ranks), "grace": grace}))
    return strangers
