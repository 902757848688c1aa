"""What the cluster shows becomes what the books know, in memory: the counterpart of services/observations.py.

Level-triggered: a whole observation alone leads to the right state from any state. One that is older than what is
known already brings only the ends of pods, which are final; neither its nodes nor what it does not list count.
"""

from controlplane.cluster.port import Observation, PodPhase, PodSeen
from controlplane.simulator import lifecycle
from controlplane.simulator.admission import admit
from controlplane.simulator.book import Action, Book
from scheduler.snapshot import Node
from scheduler.workload import Phase

ACTOR = "loop:observe"


def take_in(book: Book, seen: Observation) -> bool:
    """Apply one observation; whether to go on from its cursor."""
    is_late = seen.at < book.at
    pods: dict[str, list[PodSeen]] = {}
    for pod in seen.pods:
        pods.setdefault(pod.workload, []).append(pod)
    if not is_late:
        book.flush(seen.at)
        _add_missing(book, seen, pods)
    for uid in sorted(pods):
        lifecycle.see(book, uid, pods[uid], ACTOR)
    if not is_late:
        _take_nodes(book, seen)
        if seen.is_full:
            _stop_strangers(book, seen)
    admit(book, ACTOR)
    return not is_late


def _add_missing(book: Book, seen: Observation, pods: dict[str, list[PodSeen]]) -> None:
    """Add a GONE for each worker whose pod a whole observation does not list, unless it was started since."""
    if not seen.is_full:
        return
    for workload in book.living():
        if workload.phase == Phase.RESERVED:
            continue
        listed = {(p.attempt, p.rank) for p in pods.get(workload.id, ())}
        performed = book.records[workload.id].performed
        for worker in workload.placement:
            was_started = performed.get(worker.rank, seen.at) < seen.at
            if was_started and not worker.reserved and (workload.attempt, worker.rank) not in listed:
                gone = PodSeen(
                    workload.id, workload.attempt, worker.rank, worker.node, worker.gpus, PodPhase.GONE,
                    ended_at=seen.at, reason="Disappeared",
                )  # fmt: skip
                pods.setdefault(workload.id, []).append(gone)


def _take_nodes(book: Book, seen: Observation) -> None:
    old = book.snapshot.inventory
    named = {node.name: node for node in seen.nodes}
    if seen.is_full:
        after = tuple(named[name] for name in sorted(named))
    else:
        known: dict[str, Node] = {node.name: node for node in old.nodes} | named
        after = tuple(known[name] for name in sorted(known) if name not in seen.gone_nodes)
    if after != old.nodes:
        book.rebuild(nodes=after)


def _stop_strangers(book: Book, seen: Observation) -> None:
    """Stop live pods that nothing is bound for."""
    for pod in seen.pods:
        if pod.phase in lifecycle.OVER:
            continue
        workload = book.get(pod.workload)
        places = {a.rank: a for a in workload.placement} if workload and workload.attempt == pod.attempt else {}
        seat = places.get(pod.rank)
        if seat is None or seat.leaving:
            book.outbox.append(Action("stop", pod.workload, pod.attempt, (pod.rank,)))
