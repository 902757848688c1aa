"""When cells of notebooks on demand begin and end, seen by what their processes ask of the daemon.

A cell begins when a process wants to launch a kernel and no process of its share has for REST s. Until its share has
a GPU (`residents.py`, in a thread of its own, as memory takes seconds to move) the process waits for its turn. What a
program copies or allocates before its first kernel the daemon does not hear of: while a notebook's memory is in the
host the driver lets that wait as well, so something else has to say that a cell begins (docs/notebooks.md).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from controlplane.enforcer.residents import Machine, Residents
from controlplane.enforcer.suspender import Broken

REST = 10.0  # s without a kernel: until then other notebooks leave its GPU to it
AGAIN = 0.5  # s until one that found no memory is tried again

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Comes:
    """A notebook of so many MiB, whose processes begin on the GPU `home`; on: those that were moved before."""

    memory: int
    home: str
    on: Mapping[int, str]


class Cells:
    """Belongs to the daemon's event loop."""

    def __init__(
        self, residents: Residents, placed: Callable[[str, str, Mapping[int, str]], None], lost: Callable[[str], None]
    ) -> None:
        """placed: a notebook has that GPU from now on, and its processes are on those; lost: it cannot go on."""
        self._residents, self._placed, self._lost = residents, placed, lost
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="residents")
        self._computing: dict[str, float] = {}  # when each was last seen to use its GPU
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._known: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """What is under way is done, nothing more is begun."""
        for task in self._tasks:
            task.cancel()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def begins(
        self, name: str, comes: Callable[[], Comes], pids: Callable[[], Sequence[int]], then: Callable[[], None]
    ) -> None:
        """A process of this notebook wants to launch; `then` is called, at once if its cell runs already.

        comes: how it is made known, if it is not yet; pids: the processes that it has by then.
        """
        if name in self._computing:
            then()
            return
        waiting = self._waiting.setdefault(name, [])
        waiting.append(then)
        if len(waiting) == 1:
            task = asyncio.get_running_loop().create_task(self._begin(name, comes(), pids))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def uses(self, name: str, at: float) -> None:
        """It uses its GPU just now."""
        if name in self._computing:
            self._computing[name] = at

    def look(self, at: float) -> None:
        """Take note of cells that have ended."""
        for name in [one for one, seen in self._computing.items() if at - seen >= REST]:
            del self._computing[name]
            self._thread.submit(self._quietly, self._residents.rests, name)

    def grow(self, machine: Machine) -> None:
        """The node has further GPUs."""
        self._thread.submit(self._residents.grow, machine)

    def where(self, name: str) -> str | None:
        """The GPU that its memory is on; None: in host memory. Raises KeyError before its first cell."""
        return self._residents.where(name)

    def parts(self, promised: Mapping[str, int]) -> Mapping[str, int]:
        """The milli-GPU of each that shares a GPU with another cell."""
        return self._residents.parts(promised)

    def ends(self, name: str) -> None:
        """Its container is gone."""
        self._computing.pop(name, None)
        self._waiting.pop(name, None)
        if name in self._known:
            self._known.discard(name)
            self._thread.submit(self._quietly, self._residents.go, name)

    async def _begin(self, name: str, comes: Comes, pids: Callable[[], Sequence[int]]) -> None:
        loop = asyncio.get_running_loop()
        found: str | None = None
        while found is None and name in self._waiting:
            try:
                found = await loop.run_in_executor(self._thread, self._wants, name, comes, tuple(pids()))
            except (Broken, ValueError) as error:
                log.warning("notebook_not_served", notebook=name, error=str(error))
                self._waiting.pop(name, None)
                self._known.discard(name)
                self._lost(name)
                return
            if found is None:
                await asyncio.sleep(AGAIN)
        if found is None or name not in self._waiting:  # its container went meanwhile
            self._known.discard(name)
            self._thread.submit(self._quietly, self._residents.go, name)
            return
        self._computing[name] = loop.time()
        self._placed(name, found, self._residents.on(name))
        for then in self._waiting.pop(name):
            then()

    def _wants(self, name: str, comes: Comes, pids: Sequence[int]) -> str | None:
        if name not in self._known:
            self._residents.come(name, comes.memory, comes.home, pids, comes.on)
            self._known.add(name)
        self._residents.has(name, pids)
        return self._residents.wants(name)

    @staticmethod
    def _quietly(does: Callable[[str], None], name: str) -> None:
        try:
            does(name)
        except (KeyError, ValueError) as error:  # it broke, or went, meanwhile
            log.info("notebook_gone", notebook=name, error=str(error))
