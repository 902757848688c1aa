"""What a story may say of how things stand: the sentences, and how each is looked up."""

import re
from collections.abc import Callable

from controlplane.models import Placement
from scheduler.model.snapshot import Node
from scheduler.model.workload import ON_DEVICE
from tests.contract.scene import Scene


def holds(scene: Scene, fact: str) -> bool:
    """Whether it is so now. Raises ValueError for a sentence that there is none of."""
    for pattern, is_so in FACTS.items():
        if found := re.fullmatch(pattern, fact):
            return is_so(scene, *found.groups())
    raise ValueError(f"{fact!r} is no fact. story.py lists them.")


def _gpus(scene: Scene, name: str, number: str) -> bool:
    return sum(len(seat.gpus) for seat in scene.seats(name)) == int(number)


def _workers(scene: Scene, name: str, number: str) -> bool:
    return len(scene.seats(name)) == int(number)


def _waits(scene: Scene, name: str, reason: str) -> bool:
    workload = scene.fresh(name)
    return (workload.phase, workload.reason) == ("Queued", reason)


def _failures(scene: Scene, name: str, number: str) -> bool:
    return bool(scene.fresh(name).failures == int(number))


def _size(scene: Scene, name: str, cores: str, memory: str) -> bool:
    """As the cluster has its workers."""
    uid = scene.uid(name)
    return {scene.drive.size(uid, seat.attempt, seat.rank) for seat in scene.seats(name)} == {
        (int(cores) * 1000, int(memory))
    }


def _limit(scene: Scene, name: str, part: str) -> bool:
    """As the cluster has those of its workers that run and stay."""
    seats = [seat for seat in scene.seats(name) if (seat.state, seat.pod_phase) == ("Bound", "Running")]
    told = {scene.drive.limit(scene.uid(name), seat.attempt, seat.rank) for seat in seats}
    return told == {round(1000 * float(part))}


def _printed(scene: Scene, name: str) -> bool:
    return bool(scene.drive.cluster.logs(scene.uid(name), scene.fresh(name).attempt, 0, 5, None))


def _elsewhere(scene: Scene, name: str) -> bool:
    now = {seat.node for seat in scene.seats(name)}
    first = Placement.objects.filter(workload=scene.workloads[name].pk, attempt=1)
    return bool(now) and now != set(first.values_list("node", flat=True))


def _nodes(scene: Scene, name: str, number: str) -> bool:
    return len({seat.node for seat in scene.seats(name)}) == int(number)


def _batch(scene: Scene, name: str, number: str) -> bool:
    uid = scene.uid(name)
    return {scene.drive.batch(uid, seat.attempt, seat.rank) for seat in scene.seats(name)} == {int(number)}


def _usable(scene: Scene, node: str, number: str) -> bool:
    found = _node(scene, node)
    return found.gpus - len(found.lost) == int(number)


def _cordoned(scene: Scene, node: str) -> bool:
    return not _node(scene, node).schedulable


def _node(scene: Scene, name: str) -> Node:
    """As the cluster has it."""
    return next(node for node in scene.drive.cluster.observe(None).nodes if node.name == name)


def _revision(scene: Scene, name: str, number: str) -> bool:
    return {seat.revision for seat in scene.seats(name)} == {int(number)}


def _split(scene: Scene, name: str, percent: str, revision: str) -> bool:
    return scene.drive.split(scene.uid(name), name) == (int(revision), int(percent))


def _is_whole(scene: Scene, name: str) -> bool:
    return scene.drive.split(scene.uid(name), name) is None


def _replicas(scene: Scene, name: str, number: str, revision: str) -> bool:
    return sum(seat.revision == int(revision) for seat in scene.seats(name)) == int(number)


def _asleep(scene: Scene, name: str, number: str) -> bool:
    return sum(seat.asleep_at is not None for seat in scene.seats(name)) == int(number)


def _offloaded(scene: Scene, name: str, number: str) -> bool:
    return sum(seat.weights not in ON_DEVICE for seat in scene.seats(name)) == int(number)


def _address(scene: Scene, name: str, no: str) -> bool:
    return scene.drive.has_address(scene.uid(name), name) is not bool(no)


def _borrows(scene: Scene, name: str, number: str, lender: str) -> bool:
    seats = [seat for seat in scene.seats(name) if seat.lender == scene.uid(lender)]
    return sum(len(seat.gpus) for seat in seats) == int(number)


FACTS: dict[str, Callable[..., bool]] = {
    r"(\S+) holds (\d+) GPUs?": _gpus,
    r"(\S+) has (\d+) workers?": _workers,
    r"(\S+) waits as (\w+)": _waits,
    r"(\S+) has (\d+) failures?": _failures,
    r"(\S+) has (\d+) cores? and (\d+) MiB": _size,
    r"(\S+) may use (0\.\d+) of its GPUs?": _limit,
    r"(\S+) has printed lines": _printed,
    r"(\S+) runs elsewhere": _elsewhere,
    r"(\S+) runs on (\d+) nodes?": _nodes,
    r"(\S+) is told a batch of (\d+)": _batch,
    r"(\S+) has (\d+) usable GPUs": _usable,
    r"(\S+) is of revision (\d+)": _revision,
    r"(\S+) has (\d+) replicas? of revision (\d+)": _replicas,
    r"(\S+) sends (\d+) % of requests to revision (\d+)": _split,
    r"(\S+) splits no requests": _is_whole,
    r"(\S+) has (\d+) replicas? on standby": _asleep,
    r"(\S+) has (\d+) replicas? with weights in host memory": _offloaded,
    r"(\S+) borrows (\d+) GPUs? of (\S+)": _borrows,
    r"(\S+) has (no|an) address": lambda scene, name, which: _address(scene, name, "" if which == "an" else which),
    r"(\S+) is cordoned": _cordoned,
}
