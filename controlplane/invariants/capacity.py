"""S1 capacity, S2 ledger = truth, S20 one borrower: nothing is given twice, and the total is the sum of its parts."""

from collections.abc import Iterator

import numpy as np

from controlplane.invariants.footprint import Ints, recount
from controlplane.invariants.state import State, Violation
from gpushare.gpu import WHOLE
from scheduler.model.snapshot import COMPUTE, FUTURE_IDLE, IDLE, MEMORY, Columns, Inventory
from scheduler.model.workload import WAITING, Phase

_UNITS = {COMPUTE: "milli-GPU", MEMORY: "MiB"}


def s1_capacity(state: State) -> tuple[Violation, ...]:
    """No device and no node holds more than it has, nor will it.

    A reservation overlaps the victims that are still leaving, so there are two sums: what is bound or leaving fits
    now, and what is bound or reserved fits later. A device that holds a whole-GPU worker is at 1000 milli, so nothing
    else fits on it. A third sum counts the pods that the cluster itself has: two pods on one device is what a tenant
    would feel.

    Capacity is that of the hardware: a device that is lost under its worker is S6's matter, not over-commit.
    """
    inventory, columns = state.snapshot.inventory, state.snapshot.columns
    found = list(_over(inventory, columns, IDLE, "bound or leaving"))
    found += _over(inventory, columns, FUTURE_IDLE, "bound or reserved")
    if state.pods is not None:
        rows = state.footprints.of_pods(inventory, state.snapshot.workloads, state.pods)
        found += _over(inventory, recount(inventory, rows), IDLE, "in pods of the cluster")
    return tuple(found)


def _over(inventory: Inventory, columns: Columns, when: int, what: str) -> Iterator[Violation]:
    for kind in (COMPUTE, MEMORY):
        has = _device_has(inventory, kind)
        taken = columns.gpu[when, kind]
        for device in np.flatnonzero((taken > has) | (taken < 0)):
            node = int(inventory.node_of[device])
            name = f"{inventory.nodes[node].name}/{int(device - inventory.offset[node])}"
            yield Violation("S1", name, f"{taken[device]} of {has[device]} {_UNITS[kind]} are {what}.")
        room, used = inventory.node_capacity[kind], columns.node[when, kind]
        for at in np.flatnonzero((used > room) | (used < 0)):
            unit = "milli-cores" if kind == COMPUTE else "MiB of memory"
            yield Violation("S1", inventory.nodes[at].name, f"{used[at]} of {room[at]} {unit} are {what}.")


def _device_has(inventory: Inventory, kind: int) -> Ints:
    """Shape [G]: what the hardware has, lost devices included."""
    if kind == COMPUTE:
        return np.full(len(inventory.node_of), WHOLE, dtype=np.int64)
    return inventory.gpu_memory[inventory.node_of]


def s2_ledger(state: State) -> tuple[Violation, ...]:
    """The columns that decisions are made on are the sum of the placements, and the pods are among those.

    Three accounts of one truth: the columns kept by difference, the same columns summed anew from all
    placements, and the pods that the cluster has, each of which must have a placement that is bound or leaving
    on exactly its node and devices. (A placement without a pod is normal: its start is under way.)
    """
    snapshot = state.snapshot
    held = state.footprints.of_workloads(snapshot.inventory, snapshot.workloads)
    truth = recount(snapshot.inventory, [rows for _, rows in held])
    found = []
    for name in ("gpu", "node"):
        kept, summed = getattr(snapshot.columns, name), getattr(truth, name)
        if not np.array_equal(kept, summed):
            when, kind, at = (int(i) for i in np.argwhere(kept != summed)[0])
            message = f"The columns say {kept[when, kind, at]}, the placements add up to {summed[when, kind, at]}."
            found.append(Violation("S2", f"{name}[{when}, {kind}, {at}]", message))
    return (*found, *_pods_without_placement(state))


def _pods_without_placement(state: State) -> Iterator[Violation]:
    if state.pods is None:
        return
    subjects = state.pods.keys() if state.only is None else state.only & state.pods.keys()
    for uid in sorted(subjects):
        workload = state.snapshot.workloads.get(uid)
        if workload is None:
            continue  # S5: no pod outlives its workload
        seats = {a.rank: a for a in workload.placement if not a.reserved and workload.phase != Phase.RESERVED}
        for pod in state.pods[uid]:
            seat = seats.get(pod.rank)
            if pod.attempt != workload.attempt:
                continue  # S5 as well: another attempt runs
            if seat is None:
                why = "nothing is bound for it" if workload.phase in WAITING else "no placement of it is bound"
                yield Violation("S2", pod.name, f"The cluster runs this pod, but {why} ({workload.phase}).")
            elif (seat.node, seat.gpus) != (pod.node, pod.gpus):
                message = f"The pod is on {pod.node} {pod.gpus}, its placement on {seat.node} {seat.gpus}."
                yield Violation("S2", pod.name, message)


def s20_one_borrower(state: State) -> tuple[Violation, ...]:
    """No device of a service's sleeping replica is lent to two workers, one that still leaves included.

    In the account a lent device is its lender's, and of the borrower only memory counts there; two of them may fit, so
    that S1 would not see it. Each has that device to itself by what it asked for.
    """
    touched = state.snapshot.workloads if state.only is None else state.only
    known = (state.snapshot.workloads.get(uid) for uid in touched)
    if not any(a.lender for w in known if w is not None for a in w.placement):
        return ()
    found: dict[tuple[str, int], list[str]] = {}
    for uid, workload in state.snapshot.workloads.items():
        for worker in workload.placement:
            for index in worker.gpus if worker.lender else ():
                found.setdefault((worker.node, index), []).append(f"{uid} rank {worker.rank}")
    return tuple(
        Violation("S20", f"{node}/{index}", f"The device is lent to {' and '.join(workers)}.")
        for (node, index), workers in sorted(found.items())
        if len(workers) > 1
    )
