"""A training of several processes for tests: run in a container as `python3 -c SOURCE FOLDER`, so it imports no module
of ours.

In each step a worker adds what it has computed to a sum of all of them (all-reduce, by the worker of rank 0). SIGTERM
to any of them stops all after the same step; then rank 0 saves step and sum in FOLDER/checkpoint.json, and all end
well. It begins where the checkpoint is, and is done once there is a FOLDER/enough.
"""

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import IO

STEP_SECONDS = 0.02
TRIES, PAUSE = 600, 0.1  # the first worker's name is known only once it has started


def expected(step: int, size: int) -> int:
    """The sum after so many steps, none left out and none done twice."""
    return step * (step + 1) // 2 * size * (size + 1) // 2


def main(folder: Path, rank: int, size: int, first: tuple[str, int]) -> None:
    """Train until done or told to stop."""
    told: list[float] = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
    checkpoint = folder / "checkpoint.json"
    step, total = json.loads(checkpoint.read_text()) if checkpoint.exists() else (0, 0)
    peers = accept(first[1], size) if rank == 0 else [reach(first)]
    own = socket.gethostbyname(socket.gethostname())
    print(f"rank {rank} at {own} starts at step {step}", flush=True)
    is_over = False
    while not is_over:
        step += 1
        is_enough = rank == 0 and (folder / "enough").exists()
        added, is_over = reduce(peers, rank, step * (rank + 1), bool(told) or is_enough)
        total += added
        if rank == 0:
            (folder / "now").write_text(str(step))
        time.sleep(STEP_SECONDS)
    if rank == 0:
        save(checkpoint, [step, total])
    if told:
        (folder / f"told-{rank}").write_text(str(told[0]))
    print(f"rank {rank} ends at step {step} with {total}", flush=True)


def reduce(peers: "list[IO[str]]", rank: int, value: int, is_over: bool) -> tuple[int, bool]:
    """The sum of all workers' values, and whether one of them wants to stop."""
    if rank == 0:
        for peer in peers:
            others, is_one_over = json.loads(peer.readline())
            value, is_over = value + others, is_over or is_one_over
    for peer in peers:
        print(json.dumps([value, is_over]), file=peer, flush=True)
    if rank > 0:
        value, is_over = json.loads(peers[0].readline())
    return value, is_over


def accept(port: int, size: int) -> "list[IO[str]]":
    """Connections from all the others."""
    server = socket.create_server(("", port))
    found = [server.accept() for _ in range(size - 1)]
    print("peers", *(address[0] for _, address in found), flush=True)
    return [peer.makefile("rw") for peer, _ in found]


def reach(first: tuple[str, int]) -> "IO[str]":
    """A connection to the first worker."""
    for _ in range(TRIES - 1):
        try:
            return socket.create_connection(first, 5).makefile("rw")
        except OSError:
            time.sleep(PAUSE)
    return socket.create_connection(first, 5).makefile("rw")


def save(path: Path, state: list[int]) -> None:
    """Write it whole or not at all."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(state))
    beside.replace(path)


if __name__ == "__main__":
    of = os.environ
    main(Path(sys.argv[1]), int(of["RANK"]), int(of["WORLD_SIZE"]), (of["MASTER_ADDR"], int(of["MASTER_PORT"])))
