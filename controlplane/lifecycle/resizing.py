"""CPU and memory of workers that run are changed in place (Kubernetes: resize of a pod).

State.resize says how that stands, as JSON: `to`, the size that each worker is to have; `back`, the one to go back to if
a node refuses (null: it is going back already), and `was`, what the job file said then; `since`; `seen`, the ranks that
were seen with `to`; `refused`, by rank, the reason and words of the nodes that did not do it yet. A size is [1/1000
cores, MiB].

Meanwhile State.cpu_milli and memory, which the scheduler counts, are the larger of before and after: a worker may have
either, so a node is never promised to others before what was given up there is seen to be free.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from controlplane.cluster.port import INFEASIBLE, PodPhase, PodSeen
from controlplane.lifecycle.changes import Changes
from controlplane.lifecycle.state import BOUND, Seat, State
from scheduler.model.workload import ACTIVE, Phase

RESIZABLE = (Phase.RUNNING, Phase.SCALING, Phase.DEGRADED)
Size = tuple[int, int]  # 1/1000 cores and MiB of one worker


def may_resize(row: State) -> bool:
    """Whether its workers run and mean to go on."""
    return row.phase in RESIZABLE and not row.intent


class Sized(Protocol):
    """A workload's row, here or as its model."""

    @property
    def resize(self) -> Any:
        """How a resize stands; None without one."""

    @property
    def cpu_milli(self) -> int:
        """1/1000 cores of a worker."""

    @property
    def memory(self) -> int:
        """MiB of a worker."""


def wanted(row: Sized) -> Size:
    """What each worker is to have."""
    cpu_milli, memory = row.resize["to"] if row.resize else (row.cpu_milli, row.memory)
    return cpu_milli, memory


def begin(changes: Changes, row: State, size: Size, *, was: Mapping[str, Any]) -> None:
    """Have each worker's CPU and memory changed. `was`: what the job file said of its resources before."""
    before, kept = wanted(row), row.resize
    if kept and kept["back"] is not None:  # a change of mind: what was settled last is still what to go back to
        before, was = (kept["back"][0], kept["back"][1]), kept["was"]
    back = None if before == size else list(before)
    counted = {"cpu_milli": max(row.cpu_milli, size[0]), "memory": max(row.memory, size[1])}
    changes.bump(row, resize=_resize(size, back, changes.at) | {"was": dict(was)}, **counted)
    data = {"before": _as_data(before), "after": _as_data(size)}
    text = f"Each worker gets {in_words(size)} in place of {in_words(before)}."
    changes.note(row, "Resizing", message=text, data=data)
    _command(changes, row, _running(changes, row))


def see(changes: Changes, row: State, pods: Sequence[PodSeen]) -> None:
    """Take note of which workers have what they are to have, and of the nodes that did not give it."""
    if row.resize is None:
        return
    seen, refused = set(row.resize["seen"]), dict(row.resize["refused"])
    ranks = {seat.rank for seat in _holding(changes, row)}
    for pod in pods:
        if pod.attempt != row.attempt or pod.rank not in ranks:
            continue
        refused.pop(str(pod.rank), None)
        if pod.resize:
            refused[str(pod.rank)] = [pod.resize, pod.resize_message]
        if (pod.cpu_milli, pod.memory) == wanted(row):
            seen.add(pod.rank)
        else:
            seen.discard(pod.rank)
    _keep(changes, row, seen=sorted(seen), refused=refused)


def repeat(changes: Changes, row: State, pods: Sequence[PodSeen]) -> None:
    """Tell those again that run and were not seen with their size: a pod may have been made too early to be told."""
    others = [
        pod.rank
        for pod in pods
        if pod.attempt == row.attempt and pod.phase == PodPhase.RUNNING and (pod.cpu_milli, pod.memory) != wanted(row)
    ]
    _command(changes, row, [seat for seat in _running(changes, row) if seat.rank in others])


def performed(changes: Changes, row: State, size: Size) -> None:
    """A command was carried out. What was seen before one for a size that is not wanted any more does not count."""
    if row.resize is not None and size != wanted(row):
        _keep(changes, row, seen=[])


def conclude(changes: Changes, row: State) -> str:
    """Finish a resize once all its workers were seen with their size; only once no command about it is open any more.

    The answer is the rank of a worker whose node could never do it, empty for none.
    """
    if row.resize is None or row.phase not in ACTIVE or row.intent:
        return ""
    if {seat.rank for seat in _holding(changes, row)} <= set(row.resize["seen"]):
        is_back = row.resize["back"] is None
        changes.settle_size(row)
        words = in_words((row.cpu_milli, row.memory))
        changes.bump(row)
        changes.note(row, "Resized", message=f"Each worker has {words}{' again' if is_back else ''}.")
        return ""
    return next((rank for rank, (reason, _) in row.resize["refused"].items() if reason == INFEASIBLE), "")


def give_up(changes: Changes, row: State, reason: str, message: str) -> Mapping[str, Any] | None:
    """Put CPU and memory back; what the job file said of them before is the answer, None if they go back already."""
    resize = row.resize
    if resize is None or resize["back"] is None or row.phase not in ACTIVE or row.intent:
        return None
    size: Size = (resize["back"][0], resize["back"][1])
    after = wanted(row)
    changes.bump(row, resize=_resize(size, None, changes.at))
    text = f"{message} Each worker keeps {in_words(size)}."
    data = {"before": _as_data(after), "after": _as_data(size)}
    changes.note(row, "ResizeRefused", reason=reason, message=text[:400], data=data)
    _command(changes, row, _running(changes, row))
    was: Mapping[str, Any] = resize["was"]
    return was


def refusal(changes: Changes, row: State, rank: str) -> tuple[str, str]:
    """The reason and the sentence for the node of a worker that did not resize it."""
    assert row.resize is not None  # noqa: S101 - asked of what is being resized
    reason, words = row.resize["refused"][rank]
    nodes = {str(seat.rank): seat.node for seat in changes.live(row)}
    role, number = row.role_of(int(rank))
    what = f"{nodes.get(rank, 'Its node')} could not give {role} {number} {in_words(wanted(row))}"
    return reason, f"{what}: {words.rstrip('.')}." if words else f"{what}."


def overdue(changes: Changes, row: State, seconds: float) -> tuple[str, str] | None:
    """The reason and the sentence for a resize that was not done within so many seconds; None if it may take longer."""
    resize = row.resize
    if resize is None or resize["back"] is None or changes.at < resize["since"] + seconds:
        return None
    if resize["refused"]:
        return refusal(changes, row, min(resize["refused"]))
    return "ResizeTimeout", f"Not all workers were seen with {in_words(wanted(row))} within {seconds:.0f} s."


def in_words(size: Sequence[int]) -> str:
    """`8 cores and 64 GiB`."""
    cpu_milli, memory = size
    amount = f"{memory / 1024:g} GiB" if memory >= 1024 else f"{memory} MiB"
    return f"{cpu_milli / 1000:g} {'core' if cpu_milli == 1000 else 'cores'} and {amount}"


def _resize(to: Sequence[int], back: Sequence[int] | None, at: float) -> dict[str, Any]:
    return {"to": list(to), "back": back, "since": at, "seen": [], "refused": {}}


def _as_data(size: Sequence[int]) -> dict[str, int]:
    return {"cpu_milli": size[0], "memory_mib": size[1]}


def _keep(changes: Changes, row: State, **parts: Any) -> None:
    """Note parts of how it stands; nothing that the scheduler looks at."""
    assert row.resize is not None  # noqa: S101 - asked of what is being resized
    if any(row.resize[name] != value for name, value in parts.items()):
        row.resize = row.resize | parts
        row.changed.add("resize")


def _holding(changes: Changes, row: State) -> list[Seat]:
    """Workers that may hold either size: those that leave as well, until they are gone."""
    return [s for s in changes.live(row) if s.bound_at is not None and s.rank >= row.role_members]


def _running(changes: Changes, row: State) -> list[Seat]:
    return [seat for seat in _holding(changes, row) if seat.state == BOUND]


def _command(changes: Changes, row: State, seats: Collection[Seat]) -> None:
    """The size is not in the command: it is looked up when it is carried out, so that the newest counts."""
    if seats:
        changes.act("resize", row, [seat.rank for seat in seats])
