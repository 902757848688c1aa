"""An elastic training for benchmarks: run in a container as `python3 -c SOURCE FOLDER MIB HOW`, so it imports no module
of ours.

Each worker holds MIB of state. In each step all add what they have computed to one sum (all-reduce, by the worker of
rank 0, which the others reach over the pod network). One that comes later gets the sum so far and takes part from the
next step on. At SIGTERM a worker takes part in the step that has begun, and leaves; the rest go on without it. HOW is
`leave`: it ends at once; or `save`: it writes its state to FOLDER first, and has it on the disk. One that ends without
a word is left out, and the step is done again. Rank 0 writes a line to FOLDER/steps for each step: when it was done,
its number, the ranks that took part, how often it was begun again, and the sum. It ends all once there is a
FOLDER/enough.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import IO

STEP_SECONDS = 0.05
TRIES, PAUSE = 600, 0.1  # the first worker's name is known only once it has started
MIB = 2**20

Peers = dict[int, IO[str]]  # by rank


def main(folder: Path, mib: int, how: str) -> None:
    """Train until done or told to stop."""
    told: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
    rank, first = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    state = b"\1" * (mib * MIB)  # each page of it is written
    if rank == 0:
        lead(folder, first[1], int(os.environ["WORLD_SIZE"]), told)
    elif follow(rank, first, told) and how == "save":
        save(folder / f"state-{rank}", state)


def lead(folder: Path, port: int, size: int, told: list[float]) -> None:
    """Have all do one step after the other; it begins once so many workers are there."""
    peers: Peers = {}
    server, step, total, is_over = socket.create_server(("", port)), 0, 0, False
    server.setblocking(False)
    with (folder / "steps").open("a") as steps:
        while not is_over:
            welcome(server, peers, step, total)
            if not step and len(peers) + 1 < size:
                time.sleep(PAUSE)
                continue
            step, again = step + 1, 0
            is_over = bool(told) or (folder / "enough").exists()
            time.sleep(STEP_SECONDS)
            while (values := collect(peers)) is None:
                again += 1
                tell(peers, None, False)
                time.sleep(STEP_SECONDS)
            total += (added := step + sum(value for value, _ in values.values()))
            tell(peers, added, is_over)
            steps.write(json.dumps([time.time(), step, [0, *sorted(values)], again, total]) + "\n")
            steps.flush()
            for rank, (_, leaves) in values.items():
                if leaves:
                    peers.pop(rank).close()


def welcome(server: socket.socket, peers: Peers, step: int, total: int) -> None:
    """Take in the workers that have come, and tell them what is summed so far."""
    while True:
        try:
            one, _ = server.accept()
        except BlockingIOError:
            return
        one.setblocking(True)
        peer = one.makefile("rw")
        one.close()  # the file keeps it open
        try:
            rank = int(peer.readline())
            print(json.dumps([step, total]), file=peer, flush=True)
        except (OSError, ValueError):  # it has ended already
            continue
        peers[rank] = peer


def collect(peers: Peers) -> dict[int, tuple[int, bool]] | None:
    """What each has computed, and whether it leaves; None: one ended without a word, and is left out."""
    values: dict[int, tuple[int, bool]] = {}
    lost = []
    for rank, peer in peers.items():
        try:
            value, leaves = json.loads(peer.readline())
            values[rank] = value, leaves
        except (OSError, ValueError):
            lost.append(rank)
    for rank in lost:
        del peers[rank]
    return None if lost else values


def tell(peers: Peers, added: int | None, is_over: bool) -> None:
    """The sum to all, or that the step is done again; one that cannot be told is found by `collect`."""
    for peer in peers.values():
        with contextlib.suppress(OSError):
            print(json.dumps([added, is_over]), file=peer, flush=True)


def follow(rank: int, first: tuple[str, int], told: list[float]) -> bool:
    """Take part until all is over (false) or this one is to leave."""
    hub = reach(first)
    print(rank, file=hub, flush=True)
    step, _ = json.loads(hub.readline())
    while True:
        time.sleep(STEP_SECONDS)
        leaves = bool(told)
        print(json.dumps([(step + 1) * (rank + 1), leaves]), file=hub, flush=True)
        added, is_over = json.loads(hub.readline())
        step += added is not None
        if is_over or (leaves and added is not None):
            return leaves


def reach(first: tuple[str, int]) -> IO[str]:
    """A connection to the first worker."""
    for _ in range(TRIES - 1):
        try:
            return socket.create_connection(first).makefile("rw")
        except OSError:
            time.sleep(PAUSE)
    return socket.create_connection(first).makefile("rw")


def save(path: Path, state: bytes) -> None:
    """Write it whole, and have it on the disk."""
    with path.open("wb") as file:
        file.write(state)
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
