"""What the cluster shows becomes what the store knows, in memory: the counterpart of
services/scheduling/observations.py.

Level-triggered: a whole observation alone leads to the right state from any state. One that is older than what is
known already brings only the ends of pods, which are final; neither its nodes nor what it does not list count.
"""

from collections.abc import Collection

from controlplane.cluster.port import Observation
from controlplane.lifecycle.pods import see, settle
from controlplane.lifecycle.sightings import Attempt, add_missing, by_workload, stop_strangers
from controlplane.lifecycle.state import State
from controlplane.simulator.chaos.store import Store
from controlplane.simulator.replay.turn import Turn, admit_all
from scheduler.model.snapshot import Node

ACTOR = "loop:observe"


def take_in(store: Store, seen: Observation) -> bool:
    """Apply one observation; whether to go on from its cursor."""
    is_late = seen.at < store.at
    if not is_late:
        store.flush(seen.at)
        _take_nodes(store, seen)
    pods = by_workload(seen.pods)
    turn = Turn(store, ACTOR)
    if not is_late:
        add_missing(turn, seen, pods, lambda rows: _started_lately(store, seen.at, rows))
    for uid in sorted(turn.rows):
        if uid in pods or (seen.is_full and not is_late):
            row, shown = turn.rows[uid], pods.get(uid, [])
            settle(turn, row, see(turn, row, shown), shown)
    if seen.is_full and not is_late:
        stop_strangers(turn, seen, lambda _: True, _stopped_lately(store, seen.at))
    turn.write()
    admit_all(store, ACTOR)
    return not is_late


def _started_lately(store: Store, at: float, rows: Collection[State]) -> set[Attempt]:
    """Whose start is not performed yet, or was since this time."""
    asked = {(one.workload, one.attempt) for one in store.outbox if one.verb == "start"}
    done = {(row.id, row.attempt) for row in rows if any(t >= at for t in store.records[row.id].performed.values())}
    return asked | done


def _stopped_lately(store: Store, at: float) -> set[Attempt]:
    return {
        (uid, attempt) for uid, record in store.records.items() for attempt, until in record.stops.items() if until > at
    }


def _take_nodes(store: Store, seen: Observation) -> None:
    old = store.snapshot.inventory
    named = {node.name: node for node in seen.nodes}
    if seen.is_full:
        after = tuple(named[name] for name in sorted(named))
    else:
        known: dict[str, Node] = {node.name: node for node in old.nodes} | named
        after = tuple(known[name] for name in sorted(known) if name not in seen.gone_nodes)
    if after != old.nodes:
        store.rebuild(nodes=after)
