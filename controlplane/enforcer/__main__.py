"""`python -m controlplane.enforcer`: the daemon of a node that holds shares of its GPUs to their parts.

docs/shared-gpus.md says how it is used. It is no command of manage.py, as it needs nothing of Django and starts in half
a second without it.
"""

import asyncio
import contextlib
import gc
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from controlplane.enforcer import build, cudacheckpoint, exporting, page, shares
from controlplane.enforcer.daemon import Daemon

FOLDER = Path("/run/weft/enforcer")
KUBELET = Path("/var/lib/kubelet")
PROGRAMS = Path("/run/weft/enforcer-library")
STATUS = "{:<24} {:<12} {:>9} {:>6} {:>11} {:>11} {:>9}  {}"


def add_arguments(parser: ArgumentParser) -> None:
    """Options."""
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the node's shares lie: a folder for each")
    parser.add_argument("--metrics-port", type=int, help="tell Prometheus at /metrics of this port; none without it")
    parser.add_argument("--metrics-address", default="127.0.0.1", help="of this address; %(default)s if not given")
    parser.add_argument("--node", help="bring the shares into this node's pods, as its kubelet's device plugin")
    parser.add_argument("--kubelet", type=Path, default=KUBELET, help="the kubelet's folder; %(default)s if not given")
    parser.add_argument("--tools", type=Path, help="where the node has NVIDIA's cuda-checkpoint; PATH if not there")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="where the node has what --library builds")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--status", action="store_true", help="serve nothing: print each share and what it has")
    what.add_argument("--library", type=Path, metavar="FOLDER", help="serve nothing: build the library into a folder")


def run(options: dict[str, Any]) -> int:
    """Do what they say; the exit code."""
    if options["library"]:
        try:
            print(build.build(options["library"]))
        except build.BuildError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    if options["status"]:
        print("\n".join(status(options["folder"])))
        return 0
    agent, tool = None, cudacheckpoint.find(options["tools"])
    if options["node"]:
        from controlplane.enforcer.kubelet import agent as agents  # only then: it takes a second to import

        try:
            folders = options["folder"], options["kubelet"], options["programs"]
            agent = agents.of(*folders, options["node"], tool)
        except agents.NoClusterError as error:
            print(error, file=sys.stderr)
            return 1
        agent.start()
    try:
        gc.freeze()  # what was imported stays; a look for garbage in it would hold a hand-over up
        daemon = Daemon(options["folder"], tool=tool)
        return asyncio.run(_serve(daemon, options["folder"], options["metrics_address"], options["metrics_port"]))
    finally:
        if agent is not None:
            agent.close()


def status(root: Path) -> Iterator[str]:
    """A line for each share: what is promised, what it has, and whether its time is held to it."""
    heads = ("SHARE", "GPU", "GUARANTEE", "LIMIT", "MEMORY MIB", "USED MIB", "PROCESSES")
    yield STATUS.format(*heads, "TIME")
    for folder in sorted(one for one in root.iterdir() if one.is_dir()) if root.is_dir() else ():
        try:
            placed = shares.read(folder)
            slots = page.seen(folder / shares.MOUNTED)
        except (OSError, ValueError) as error:
            yield f"{folder.name}: {error}"
            continue
        if placed is not None:
            used = sum(slot.used for slot in slots) // page.MIB
            held = "advisory" if any(slot.is_advisory for slot in slots) else "held"
            share, moved = placed.share, shares.moved(folder) if placed.on_demand else {}
            gpu = next(iter(moved.values()), placed.gpu)
            held += ", on demand" if placed.on_demand else ""
            parts = (share.guarantee, share.limit, share.memory, used, len(slots))
            yield STATUS.format(folder.name, gpu, *parts, held)


async def _serve(daemon: Daemon, root: Path, address: str, port: int | None) -> int:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with contextlib.AsyncExitStack() as stack:
        if port is not None:
            try:
                had = await stack.enter_async_context(exporting.serving(daemon, address, port))
            except OSError as error:
                print(f"Nothing can be told at {address}:{port}: {error}", file=sys.stderr)
                return 1
            print(f"For how long each has its GPU is told at http://{address}:{had}/metrics.", flush=True)
        print(f"Shares below {root} are held to their parts. Ctrl-C ends it.", flush=True)
        await daemon.run(ended)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Read the options and do what they say; the exit code."""
    parser = ArgumentParser(prog="python -m controlplane.enforcer")
    add_arguments(parser)
    return run(vars(parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
