"""Notebooks on demand on one node: when a cell begins, it gets a GPU, and the memory of others makes room.

`gpushare.ondemand` decides, and a `Suspender` moves. What it cannot move stays on its GPU; what breaks is given up. All
calls belong to one thread, as moving gigabytes takes seconds. Nothing here computes: who may launch kernels on the GPU
that a notebook has is the daemon's (`turns.py`).
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import structlog

from controlplane.enforcer.suspender import Broken, NotDone, State, Suspender, resume, suspend
from gpushare import ondemand, residency
from gpushare.ondemand import Rules, Start
from gpushare.residency import Gpu, Node, Notebook

WAIT = 2.0  # s for kernels that run: an idle notebook has none
NODE = "node.json"
NOWHERE: Mapping[int, str] = {}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPUs of a share pool on a node, by UUID with their MiB, and the host memory that notebooks may book there.

    numbers: what Weft calls them, where that is known.
    """

    gpus: Mapping[str, int]
    host_memory: int
    numbers: Mapping[str, int] = field(default_factory=dict)


def read(root: Path) -> Machine | None:
    """What the file in the folder of shares says; None: there is none, so nothing is on demand. Raises ValueError."""
    path = root / NODE
    try:
        said = json.loads(path.read_text())
        gpus = {str(name): int(memory) for name, memory in said["gpus"].items()}
        numbers = {str(name): int(number) for name, number in said.get("numbers", {}).items()}
        return Machine(gpus, int(said["host_memory"]), numbers)
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{path}: {error!r}") from error


def write(root: Path, machine: Machine) -> None:
    """Have the file say so, beside what it says of other GPUs. It is read whole or not at all. Raises ValueError."""
    before = read(root)
    if before is not None:
        gpus, numbers = {**before.gpus, **machine.gpus}, {**before.numbers, **machine.numbers}
        machine = Machine(gpus, machine.host_memory, numbers)
    if machine == before:
        return
    root.mkdir(parents=True, exist_ok=True)
    draft = root / f"{NODE}.draft"
    draft.write_text(json.dumps(asdict(machine)))
    draft.replace(root / NODE)


class Residents:
    """Which notebook is on which GPU. Methods with a name raise KeyError for one that has not come."""

    def __init__(
        self,
        machine: Machine,
        tool: Suspender,
        rules: Rules = ondemand.RULES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Whether notebooks move at all hangs on the tool."""
        self._tool, self._clock = tool, clock
        self._rules = replace(rules, can_move=rules.can_move and tool.can_move)
        self._names = tuple(sorted(machine.gpus))
        self._node = Node(tuple(Gpu(machine.gpus[name]) for name in self._names), machine.host_memory)
        self._home: dict[str, str] = {}  # the GPU on which new processes of a notebook begin
        self._on: dict[
            str, dict[int, str]
        ] = {}  # the GPU that the driver knows a process by, also while it is in the host

    @property
    def node(self) -> Node:
        """As it is now."""
        return self._node

    def grow(self, machine: Machine) -> None:
        """It has more GPUs than it was known to have: those are added. What is known of the others stays."""
        new = tuple(sorted(machine.gpus.keys() - set(self._names)))
        gpus = (*self._node.gpus, *(Gpu(machine.gpus[name]) for name in new))
        self._names, self._node = (*self._names, *new), Node(gpus, machine.host_memory, self._node.offloaded)

    def where(self, name: str) -> str | None:
        """The GPU that the memory of a notebook is on; None: it is in host memory. May be called from any thread."""
        index, _ = self._node.find(name)
        return None if index is None else self._names[index]

    def come(self, name: str, memory: int, home: str, pids: Sequence[int], on: Mapping[int, str] = NOWHERE) -> None:
        """A notebook whose processes begin on that GPU. on: those that were moved before; where they are the tool says.

        Where its GPU has no room for it, its processes have nothing there yet: they wait before they allocate. Raises
        ValueError where the host memory cannot hold it.
        """
        gpu = next((on[pid] for pid in pids if pid in on), home)
        for one in {home, gpu} - set(self._names):
            raise ValueError(f"{name}: {one} is no GPU of this node's share pool")
        node = residency.enter(self._node, Notebook(name, memory, int(self._clock())))
        device = node.gpus[self._names.index(gpu)]
        has_room = device.used + memory <= device.memory  # else it begins as if it were in host memory
        if has_room and not any(self._state(pid) is State.CHECKPOINTED for pid in pids):
            at = int(self._clock())
            node = residency.end(residency.begin(node, name, self._names.index(gpu), at), name, at)
        self._node, self._home[name] = node, home
        self._on[name] = {pid: on.get(pid, home) for pid in pids}

    def has(self, name: str, pids: Sequence[int]) -> None:
        """These are its processes from now on."""
        before = self._on[name]
        self._on[name] = {pid: before.get(pid, self._home[name]) for pid in pids}

    def on(self, name: str) -> Mapping[int, str]:
        """Which GPU the driver knows each of its processes by."""
        return self._on[name]

    def go(self, name: str) -> None:
        """Its container is gone."""
        self._node = residency.leave(self._node, name)
        del self._home[name], self._on[name]

    def wants(self, name: str) -> str | None:
        """A cell of it begins: the GPU that it has from now on; None: none has memory for it, or it could not be moved.

        Raises Broken where it cannot go on. Others that break are gone from here, and their containers will fail.
        """
        while True:
            index, notebook = self._node.find(name)
            start = ondemand.choose((self._node,), notebook, 0, int(self._clock()), self._rules)
            if start is None:
                return None
            if not self._make_room(start):
                continue  # one that was to leave stays: it is fixed, or gone
            try:
                self._bring(name, index, start)
            except NotDone as error:
                log.warning("notebook_not_moved", notebook=name, error=str(error))
                if self._node.find(name)[0] in (None, start.gpu):
                    return None
                self._fix(name)
                continue
            except Broken as error:
                log.warning("notebook_broken", notebook=name, error=str(error))
                self.go(name)
                raise
            self._node = residency.begin(self._node, name, start.gpu, int(self._clock()))
            return self._names[start.gpu]

    def rests(self, name: str) -> None:
        """Its cell has ended."""
        self._node = residency.end(self._node, name, int(self._clock()))

    def parts(self, promised: Mapping[str, int]) -> Mapping[str, int]:
        """The milli-GPU for each notebook that shares its GPU with another one whose cell runs, by the age of cells.

        promised: to each by its share. May be called from any thread.
        """
        found: dict[str, int] = {}
        for gpu in self._node.gpus:
            if len(gpu.computing) > 1 and all(one.name in promised for one in gpu.computing):
                found |= ondemand.parts(gpu, promised, int(self._clock()), self._rules)
        return found

    def _make_room(self, start: Start) -> bool:
        for name in start.evicted:
            try:
                suspend(self._tool, self._using(self._on[name]), WAIT)
            except NotDone as error:
                log.warning("notebook_not_moved", notebook=name, error=str(error))
                self._fix(name)
                return False
            except Broken as error:
                log.warning("notebook_broken", notebook=name, error=str(error))
                self.go(name)
                return False
            self._node = residency.offload(self._node, name)
        return True

    def _bring(self, name: str, index: int | None, start: Start) -> None:
        """To the GPU of its start, from another one or from host memory; a process that began elsewhere as well."""
        new, on = self._names[start.gpu], self._on[name]
        away = self._using([pid for pid, gpu in on.items() if gpu != new or self._state(pid) is State.CHECKPOINTED])
        if away:
            try:
                suspend(self._tool, away, WAIT)
            except NotDone as error:
                if index is None or index != start.gpu:
                    raise
                log.warning("process_not_moved", notebook=name, error=str(error))
                return  # it began on another GPU than its notebook is on, and computes there
        if index not in (None, start.gpu):
            self._node = residency.offload(self._node, name)
        for old in sorted({on[pid] for pid in away}):
            pids = [pid for pid in away if on[pid] == old]
            resume(self._tool, pids, self._swapped(old, new))
            on.update(dict.fromkeys(pids, new))

    def _swapped(self, old: str, new: str) -> Mapping[str, str]:
        """All GPUs of the pool, as the driver wants each that a process sees named; nothing if it stays."""
        if old == new:
            return {}
        return {name: name for name in self._names} | {old: new, new: old}

    def _using(self, pids: Iterable[int]) -> list[int]:
        """Those that the driver knows: what never used a GPU has nothing there."""
        return [pid for pid in pids if self._state(pid) is not None]

    def _state(self, pid: int) -> State | None:
        try:
            return self._tool.state(pid)
        except NotDone:
            return None

    def _fix(self, name: str) -> None:
        self._node = residency.fix(self._node, name)
