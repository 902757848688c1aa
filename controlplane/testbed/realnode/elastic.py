"""An elastic training for tests and benchmarks: run in a container as `python3 -c SOURCE FOLDER MIB HOW`, so it imports
no module of ours.

Each worker holds MIB of state. It fits a line by data parallel gradient descent: in each step all workers send the
gradient of their own rows and a number, and get the weights and the sum of the numbers (all-reduce, by the worker of
rank 0, which the others reach over the pod network). One that comes later gets both as they are and takes part from
the next step on. At SIGTERM a worker takes part in the step that has begun, and leaves; the rest go on without it.
HOW is `leave`: it ends at once; or `save`: it writes its state to FOLDER first, and has it on the disk. One that ends
without a word is left out, and the step is done again. Rank 0 writes a line to FOLDER/steps for each step: when it
was done, its number, the ranks that took part, how often it was begun again, the sum, and the loss before it on rows
that no worker learns from. It ends all once there is a FOLDER/enough.
"""

import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path
from typing import IO

STEP_SECONDS = 0.05
TRIES, PAUSE = 600, 0.1  # the first worker's name is known only once it has started
MIB = 2**20

TRUTH = (3.0, -2.0, 1.0, 0.5)  # the weights to be found
ROWS, NOISE, RATE = 64, 0.1, 0.02
HELD_OUT = -1  # as if a rank's: what the loss is taken on

Peers = dict[int, IO[str]]  # by rank
Weights = list[float]
Row = tuple[Weights, float]


class Course:
    """What else a step does, and how fast it learns."""

    rate = RATE

    def begin(self) -> None:
        """First."""
        time.sleep(STEP_SECONDS)

    def done(self, exchange: float) -> None:
        """Last; exchange: s, with its waits."""


def rows(rank: int) -> list[Row]:
    """What this worker learns from."""
    draw = random.Random(rank)  # noqa: S311 - rows, no secrets
    inputs = [[draw.uniform(-1.0, 1.0) for _ in TRUTH] for _ in range(ROWS)]
    return [(x, sum(a * b for a, b in zip(TRUTH, x, strict=True)) + draw.gauss(0.0, NOISE)) for x in inputs]


def missed(weights: Weights, row: Row) -> float:
    """By how much."""
    return sum(a * b for a, b in zip(weights, row[0], strict=True)) - row[1]


def gradient(weights: Weights, mine: list[Row]) -> Weights:
    """Of the mean square over these rows."""
    off = [missed(weights, row) for row in mine]
    return [2.0 * sum(o * row[0][i] for o, row in zip(off, mine, strict=True)) / len(mine) for i in range(len(TRUTH))]


def loss(weights: Weights) -> float:
    """The mean square over rows that no worker learns from."""
    held_out = rows(HELD_OUT)
    return sum(missed(weights, row) ** 2 for row in held_out) / len(held_out)


def main(folder: Path, mib: int, how: str) -> None:
    """Train until done or told to stop."""
    state = b"\1" * (mib * MIB)  # each page of it is written
    if train(folder, Course()) and how == "save":
        save(folder / f"state-{os.environ['RANK']}", state)


def train(folder: Path, course: Course) -> bool:
    """The same; whether this worker leaves the others."""
    told: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
    rank, first = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        lead(folder, first[1], int(os.environ["WORLD_SIZE"]), told, course)
        return False
    return follow(rank, first, told, course)


def lead(folder: Path, port: int, size: int, told: list[float], course: Course) -> None:
    """Have all do one step after the other; it begins once so many workers are there."""
    peers: Peers = {}
    server, step, total, is_over = socket.create_server(("", port)), 0, 0, False
    weights, mine = [0.0] * len(TRUTH), rows(0)
    server.setblocking(False)
    with (folder / "steps").open("a") as steps:
        while not is_over:
            welcome(server, peers, step, total, weights)
            if not step and len(peers) + 1 < size:
                time.sleep(PAUSE)
                continue
            step, again = step + 1, 0
            is_over = bool(told) or (folder / "enough").exists()
            course.begin()
            own, began = gradient(weights, mine), time.perf_counter()
            while (values := collect(peers)) is None:
                again += 1
                tell(peers, None, False, weights)
                course.begin()
            total += (added := step + sum(value for value, *_ in values.values()))
            before = loss(weights)
            theirs = [own, *(one for *_, one in values.values())]
            weights = [w - course.rate * sum(one[i] for one in theirs) / len(theirs) for i, w in enumerate(weights)]
            tell(peers, added, is_over, weights)
            course.done(time.perf_counter() - began)
            steps.write(json.dumps([time.time(), step, [0, *sorted(values)], again, total, before]) + "\n")
            steps.flush()
            for rank, (_, leaves, _) in values.items():
                if leaves:
                    peers.pop(rank).close()


def welcome(server: socket.socket, peers: Peers, step: int, total: int, weights: Weights) -> None:
    """Take in the workers that have come, and tell them what is summed and learned so far."""
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
            print(json.dumps([step, total, weights]), file=peer, flush=True)
        except (OSError, ValueError):  # it has ended already
            continue
        peers[rank] = peer


def collect(peers: Peers) -> dict[int, tuple[int, bool, Weights]] | None:
    """What each has computed, whether it leaves, its gradient; None: one ended without a word, and is left out."""
    values: dict[int, tuple[int, bool, Weights]] = {}
    lost = []
    for rank, peer in peers.items():
        try:
            value, leaves, slope = json.loads(peer.readline())
            values[rank] = value, leaves, slope
        except (OSError, ValueError):
            lost.append(rank)
    for rank in lost:
        del peers[rank]
    return None if lost else values


def tell(peers: Peers, added: int | None, is_over: bool, weights: Weights) -> None:
    """Sum and weights to all, or that the step is done again; one that cannot be told is found by `collect`."""
    for peer in peers.values():
        with contextlib.suppress(OSError):
            print(json.dumps([added, is_over, weights]), file=peer, flush=True)


def follow(rank: int, first: tuple[str, int], told: list[float], course: Course) -> bool:
    """Take part until all is over (false) or this one is to leave."""
    hub = reach(first)
    print(rank, file=hub, flush=True)
    mine = rows(rank)
    step, _, weights = json.loads(hub.readline())
    while True:
        course.begin()
        leaves = bool(told)
        own, began = gradient(weights, mine), time.perf_counter()
        print(json.dumps([(step + 1) * (rank + 1), leaves, own]), file=hub, flush=True)
        added, is_over, weights = json.loads(hub.readline())
        if added is not None:
            step += 1
            course.done(time.perf_counter() - began)
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
