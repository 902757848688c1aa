"""`python -m controlplane.simulator.chaos --seed 7 --events 1e6`: a long run for the night, or a failure again.

Prints a line for every 10,000 events; a broken invariant ends it with the seed, the event and what happened before.
The same commit, seed and size give the same run.
"""

import argparse
import sys
from collections.abc import Sequence

from controlplane.simulator.chaos.run import InvariantBroken, Runner, World
from controlplane.simulator.worlds.mix import nodes

STEP = 10_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as the command line says; 1 if an invariant broke."""
    parser = argparse.ArgumentParser(prog="python -m controlplane.simulator.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=float, default=1e5, help="1e6 is a night")
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--gpus", type=int, default=8, help="of one node")
    parser.add_argument("--waiting", type=int, default=World.max_waiting, help="most workloads that wait")
    chosen = parser.parse_args(arguments)
    runner = Runner(chosen.seed, World(nodes=nodes(chosen.nodes, chosen.gpus), max_waiting=chosen.waiting))
    until = int(chosen.events)
    try:
        while runner.events < until:
            runner.run(min(STEP, until - runner.events))
            told = ", ".join(f"{name} {count}" for name, count in sorted(runner.counts.items()) if name[0].isupper())
            print(f"seed {runner.seed}: {runner.events} events, {runner.rounds} rounds; {told}", flush=True)
    except InvariantBroken as broken:
        print(broken, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
