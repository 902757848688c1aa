"""The daemon of a node: it passes the token of each GPU round among the processes whose containers have a share of it.

It listens on a socket in each container's folder. Nothing that it keeps has to last: when it is started again, the
processes come back within milliseconds, all shares begin equal, and what each has of memory stands in its page.
"""

import asyncio
import contextlib
import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import structlog

from controlplane.enforcer import exporting, residents, shares
from controlplane.enforcer.cells import Cells, Comes
from controlplane.enforcer.cudacheckpoint import PROGRAM, CudaCheckpoint
from controlplane.enforcer.page import SLOTS, Page
from controlplane.enforcer.suspender import NotDone
from controlplane.enforcer.turns import Answers, Turns
from controlplane.enforcer.wire import SIZE, VERSION, Kind, Message, unpacked

LOOK = 0.5  # s: folders that came, changed or went are seen so soon
WAITING = 64  # processes of one container that connect at once
SOCKET = "socket"
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group

log = structlog.get_logger(__name__)


def now() -> int:
    """Microseconds of a clock that only goes on."""
    return time.monotonic_ns() // 1000


@dataclass(slots=True)
class _Gpu:
    turns: Turns = field(default_factory=Turns)
    timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class _Folder:
    name: str
    placed: shares.Placed
    page: Page
    listener: socket.socket
    gpu: str  # where it is now: on demand, it may be another one than where it was placed
    processes: dict[int, "_Process"] = field(default_factory=dict)


@dataclass(slots=True)
class _Process:
    number: int
    link: socket.socket
    folder: _Folder
    gpu: str
    pid: int  # as this daemon's own namespace numbers it
    greeted: bool = False


def _listener(folder: Path) -> socket.socket:
    """A socket there, for whatever user the container runs as."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    there = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        made.bind(f"/proc/self/fd/{there}/{SOCKET}")  # an address has room for 107 characters, a path may have more
        os.chmod(SOCKET, 0o666, dir_fd=there)  # noqa: S103 - the folder is mounted into one container only
    finally:
        os.close(there)
    made.listen(WAITING)
    return made


class Daemon:
    """Serves all folders below one."""

    def __init__(self, root: Path, clock: Callable[[], int] = now, tool: str = PROGRAM) -> None:
        """tool: the driver's program that moves memory, where the node is set up for notebooks on demand."""
        self._root, self._now, self._tool = root, clock, tool
        self._gpus: dict[str, _Gpu] = {}
        self._folders: dict[str, _Folder] = {}
        self._processes: dict[int, _Process] = {}
        self._numbers = itertools.count(1)
        self._wrong: dict[str, str] = {}
        self._cells: Cells | None = None
        self._machine: residents.Machine | None = None  # what _cells was made of, or grown to

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until then."""
        try:
            while not ended.is_set():
                self._know_machine()
                self.look()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), LOOK)
        finally:
            for name in list(self._folders):
                self._close(name)
            if self._cells is not None:
                self._cells.close()

    def _know_machine(self) -> None:
        """Read the file of the node, which may come and grow while the daemon runs.

        Without it, or without a tool that moves memory, shares stay where they are.
        """
        try:
            machine = residents.read(self._root)
            if machine is None or machine == self._machine:
                return
            if self._cells is None:
                made = residents.Residents(machine, CudaCheckpoint(self._tool))
                self._cells = Cells(made, self._placed, self._lost)
            else:
                self._cells.grow(machine)
            self._machine = machine
            self._wrong.pop(residents.NODE, None)
            log.info("node_known", gpus=sorted(machine.gpus), host_memory=machine.host_memory)
        except (NotDone, ValueError) as error:
            if self._wrong.get(residents.NODE) != str(error):
                log.warning("nothing_on_demand", error=str(error))
            self._wrong[residents.NODE] = str(error)

    def on_gpus(self) -> list[exporting.OnGpu]:
        """Where the memory of each notebook on demand is, by the number that Weft has for the GPU."""
        found = []
        for name, folder in self._folders.items():
            if self._cells is None or self._machine is None or not folder.placed.on_demand:
                continue
            try:
                gpu = self._cells.where(name)
            except KeyError:  # no cell of it has run yet
                gpu = folder.gpu
            number = exporting.IN_HOST_MEMORY if gpu is None else self._machine.numbers.get(gpu)
            if number is not None:
                found.append(exporting.OnGpu(name, folder.placed.pod, number))
        return found

    def look(self) -> None:
        """Follow the folders, and take off what dead processes had."""
        there = {path.name: path for path in self._root.iterdir() if path.is_dir()} if self._root.is_dir() else {}
        for name in self._folders.keys() - there.keys():
            self._close(name)
        for name, path in sorted(there.items()):
            try:
                self._follow(name, path)
                self._wrong.pop(name, None)
            except (OSError, ValueError) as error:
                if self._wrong.get(name) != str(error):
                    log.warning("share_not_served", folder=name, error=str(error))
                self._wrong[name] = str(error)
        for folder in self._folders.values():
            folder.page.clear_dead()
        self._follow_cells()

    def busy(self) -> list[exporting.Busy]:
        """For how long each share has had a token since it is served: of each GPU that it has been on."""
        had = {(name, folder.gpu): 0 for name, folder in self._folders.items()}
        at = self._now()
        for gpu, known in self._gpus.items():
            had |= {(name, gpu): time for name, time in known.turns.busy(at).items() if name in self._folders}
        return [exporting.Busy(name, self._folders[name].placed.pod, gpu, us) for (name, gpu), us in had.items()]

    def _follow_cells(self) -> None:
        if self._cells is None:
            return
        at = asyncio.get_running_loop().time()
        for name, folder in self._folders.items():
            if self._gpus[folder.gpu].turns.uses(name):
                self._cells.uses(name, at)
        self._cells.look(at)
        promised = {n: folder.placed.share.guarantee for n, folder in self._folders.items() if folder.placed.on_demand}
        parts = self._cells.parts(promised)
        for name, guarantee in promised.items():  # among cells that share a GPU the young ones get what is left
            folder = self._folders[name]
            share, part = folder.placed.share, min(parts.get(name, guarantee), folder.placed.share.limit)
            self._gpus[folder.gpu].turns.change(name, replace(share, guarantee=part), self._now())

    def _follow(self, name: str, path: Path) -> None:
        placed, known = shares.read(path), self._folders.get(name)
        if known is not None and (
            placed is None or placed.gpu != known.placed.gpu or not (path / shares.MOUNTED / SOCKET).exists()
        ):
            self._close(name)
            known = None
        if placed is None:
            return
        if known is None:
            self._open(name, path, placed)
        elif placed != known.placed:
            known.placed = placed
            known.page.set(placed.share)
            self._gpus[known.gpu].turns.change(name, placed.share, self._now())

    def _open(self, name: str, path: Path, placed: shares.Placed) -> None:
        mounted = path / shares.MOUNTED
        mounted.mkdir(exist_ok=True)
        page = Page(mounted, placed.share, on_demand=placed.on_demand and self._cells is not None)
        (mounted / SOCKET).unlink(missing_ok=True)
        try:
            listener = _listener(mounted)
        except OSError:
            page.close()
            raise
        moved = shares.moved(path) if placed.on_demand else {}
        gpu = next(iter(moved.values()), placed.gpu)
        folder = self._folders[name] = _Folder(name, placed, page, listener, gpu)
        self._gpus.setdefault(gpu, _Gpu())
        asyncio.get_running_loop().add_reader(listener, self._accept, folder)
        log.info("share_served", folder=name, gpu=placed.gpu)

    def _close(self, name: str) -> None:
        folder = self._folders.pop(name)
        loop = asyncio.get_running_loop()
        loop.remove_reader(folder.listener)
        folder.listener.close()
        for process in list(folder.processes.values()):
            self._part(process)
        if self._cells is not None:
            self._cells.ends(name)
        self._say(folder.gpu, self._gpus[folder.gpu].turns.remove(name, self._now()))
        for gpu in self._gpus.values():
            gpu.turns.forget(name)
        folder.page.close()

    def _accept(self, folder: _Folder) -> None:
        try:
            link, _ = folder.listener.accept()
        except OSError:
            return  # it is gone already
        if len(folder.processes) >= SLOTS:
            link.close()
            return
        link.setblocking(False)
        pid = _CREDENTIALS.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[0]
        process = _Process(next(self._numbers), link, folder, folder.gpu, pid)
        self._processes[process.number] = folder.processes[process.number] = process
        asyncio.get_running_loop().add_reader(link, self._receive, process)

    def _receive(self, process: _Process) -> None:
        try:
            data = process.link.recv(SIZE + 1)
            message = unpacked(data) if data else None
        except BlockingIOError:
            return
        except (OSError, ValueError):
            message = None
        if message is None:
            self._part(process)
        elif process.greeted:
            self._hear(process, message)
        elif message.kind is Kind.HELLO and message.one == VERSION:
            process.greeted = True
            placed, turns = process.folder.placed, self._gpus[process.gpu].turns
            self._say(process.gpu, turns.come(process.number, process.folder.name, placed.share, self._now()))
        else:
            log.warning("process_refused", folder=process.folder.name, pid=process.pid, said=message.kind.name)
            self._part(process)

    def _hear(self, process: _Process, message: Message) -> None:
        """A notebook on demand gets a GPU before its turn."""

        def answer() -> None:
            if process.number in self._processes:
                turns = self._gpus[process.gpu].turns
                self._say(process.gpu, turns.hear(process.number, message, self._now()))

        folder = process.folder
        if self._cells is None or not folder.placed.on_demand or message.kind is not Kind.ASK:
            answer()
            return

        def comes() -> Comes:
            return Comes(folder.placed.share.memory, folder.placed.gpu, shares.moved(self._root / folder.name))

        def pids() -> list[int]:
            return [one.pid for one in folder.processes.values() if one.greeted]

        self._cells.begins(folder.name, comes, pids, answer)

    def _placed(self, name: str, gpu: str, on: Mapping[int, str]) -> None:
        """A notebook has that GPU from now on: its processes pass that one's token."""
        folder = self._folders.get(name)
        if folder is None:
            return
        shares.note_moved(self._root / name, {pid: one for pid, one in on.items() if one != folder.placed.gpu})
        if folder.gpu == gpu:
            return
        before, after, at = self._gpus[folder.gpu].turns, self._gpus.setdefault(gpu, _Gpu()).turns, self._now()
        for process in folder.processes.values():
            if process.greeted:
                self._say(folder.gpu, before.go(process.number, at))
                after.come(process.number, name, folder.placed.share, at)  # it has been welcomed before
            process.gpu = gpu
        self._say(folder.gpu, before.remove(name, at))
        folder.gpu = gpu
        log.info("notebook_moved", folder=name, gpu=gpu)

    def _lost(self, name: str) -> None:
        """It cannot go on: its processes are let go, so that the container ends or says so."""
        folder = self._folders.get(name)
        for process in list(folder.processes.values()) if folder is not None else ():
            self._part(process)

    def _part(self, process: _Process) -> None:
        """It closed the connection, or ended."""
        asyncio.get_running_loop().remove_reader(process.link)
        process.link.close()
        process.folder.processes.pop(process.number, None)
        if self._processes.pop(process.number, None) is not None and process.greeted:
            self._say(process.gpu, self._gpus[process.gpu].turns.go(process.number, self._now()))
        process.folder.page.clear_dead()

    def _say(self, gpu: str, answers: Answers) -> None:
        """Send answers, and come back when something is due without a message."""
        for number, message in answers:
            self._send(number, message)
        known = self._gpus[gpu]
        if known.timer is not None:
            known.timer.cancel()
            known.timer = None
        at = self._now()
        due = known.turns.next_at(at)
        if due is not None:
            known.timer = asyncio.get_running_loop().call_later(max(0, due - at) / 1e6, self._tick, gpu)

    def _tick(self, gpu: str) -> None:
        self._say(gpu, self._gpus[gpu].turns.tick(self._now()))

    def _send(self, number: int, message: Message) -> None:
        """A process that is gone, or reads nothing, is found out by its own socket, or by the watchdog."""
        process = self._processes.get(number)
        if process is not None:
            with contextlib.suppress(OSError):
                process.link.send(message.packed())
