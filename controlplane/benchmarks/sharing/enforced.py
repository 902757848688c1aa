"""The experiments of `interposer`, each on a node with a fake GPU of its own; what is measured, by name."""

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from controlplane.benchmarks.harness.figure import quantile
from controlplane.enforcer import page
from controlplane.testbed.fakecuda.device import Built, Sample
from controlplane.testbed.fakecuda.rig import Rig
from controlplane.testbed.processes import wait_until

Values = dict[str, float]
ENDLESS, LONG = 10**9, 3600  # kernels of a step, s of a run: it is ended from outside
MIB, MS = 1 << 20, 1_000_000  # MS in ns
SECONDS, WINDOW = 16, 10  # s of watching a set; the longer of the two spans
STEP_US, STEPS_SECONDS = 20_000, 2.0
KERNELS = (50, 1000, 10_000)  # us
# Parts in milli-GPU, and each one's kernels in us.
SETS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "30/70, 1 ms": ((300, 1000), (700, 1000)),
    "30/70, 50 us and 10 ms": ((300, 50), (700, 10_000)),
    "20/30/50, 1 ms": ((200, 1000), (300, 1000), (500, 1000)),
    "10/20/30/40, 1 ms": ((100, 1000), (200, 1000), (300, 1000), (400, 1000)),
    "10/20/30/40, 10 ms": ((100, 10_000), (200, 10_000), (300, 10_000), (400, 10_000)),
    "10/20/30/40, 50 us to 10 ms": ((100, 50), (200, 1000), (300, 10_000), (400, 1000)),
}
# Of a cell: ms, and the pause after it, with which it stays below its 20 %; and for how many s it is watched.
CELLS = {50: (250, 12), 200: (1000, 20)}
JOINING = 2  # the first cells do not count: a share that has not paused yet has no credit
KILLS = 5
RESTART = 4  # s of watching


@dataclass(frozen=True, slots=True)
class Node:
    """Where an experiment takes place."""

    folder: Path
    built: Built
    library: Path

    @contextmanager
    def rig(self, name: str = "") -> Iterator[Rig]:
        """A fake GPU that nothing has used yet."""
        folder = self.folder.with_name(f"{self.folder.name}-{name}")
        folder.mkdir()
        rig = Rig(folder, self.built, self.library)
        try:
            yield rig
        finally:
            rig.close()


def launches(node: Node) -> Values:
    """A launch with the library, less one without it."""
    with node.rig() as rig:
        rig.share("a", guarantee=500)
        rig.serve()
        plain, held = (int(rig.run(share, "launches", 200_000, 7)) for share in (None, "a"))
    return {"launch_ns": held - plain, "launch of the fake driver, ns": plain}


def overhead(node: Node) -> Values:
    """A step with the library over one without it; of each the median, in turns."""
    values: Values = {}
    with node.rig() as rig:
        rig.share("a", guarantee=500)
        rig.serve()
        for kernel in KERNELS:
            steps: dict[str | None, list[int]] = {None: [], "a": []}
            for share in (None, "a", None, "a"):
                told = (kernel, STEP_US // kernel, 0, STEPS_SECONDS)
                steps[share] += _numbers(rig.run(share, "work", *told))[JOINING:]
            plain, held = (statistics.median(steps[share]) for share in (None, "a"))
            values[f"overhead with {kernel} us, %"] = 100 * (held / plain - 1)
    return values | {"overhead_percent": max(values.values())}


def shares(node: Node) -> Values:
    """Clients that always have work: what each has, second by second."""
    values: Values = {}
    second, ten, busy = list[float](), list[float](), list[float]()
    for number, (name, clients) in enumerate(SETS.items()):
        with node.rig(str(number)) as rig:
            for client, (guarantee, _) in enumerate(clients):
                rig.share(f"c{client}", guarantee=guarantee)
            rig.serve()
            parts = {_endless(rig, f"c{i}", kernel).pid: guarantee for i, (guarantee, kernel) in enumerate(clients)}
            _all_run(rig, parts)
            seen = _watch(rig, SECONDS)
        errors = [_error(seen[i], seen[i + 1], parts) for i in range(SECONDS)]
        second.append(quantile(errors, 0.95))
        ten.append(max(_error(seen[i], seen[i + WINDOW], parts) for i in range(SECONDS - WINDOW + 1)))
        busy.append(100 * (seen[-1].busy - seen[0].busy) / (seen[-1].at - seen[0].at))
        values |= {
            f"{name}: error p95, points": second[-1],
            f"{name}: over 10 s": ten[-1],
            f"{name}: busy, %": busy[-1],
        }
    return values | {
        "share_error_p95_points": max(second),
        "share_error_10s_points": max(ten),
        "gpu_busy_percent": min(busy),
    }


def limit(node: Node) -> Values:
    """A share alone on the GPU that may have 30 %."""
    with node.rig() as rig:
        rig.share("a", guarantee=300, limit=300)
        rig.serve()
        program = _endless(rig, "a", 1000)
        _all_run(rig, {program.pid: 300})
        seen = _watch(rig, WINDOW)
    return {"limit_percent": 100 * _had(seen[0], seen[-1], program.pid) / (seen[-1].at - seen[0].at)}


def cells(node: Node) -> Values:
    """Cells of a share of 20 % beside one of 80 % that always has work."""
    alone, beside, long = ({length: _cell(node, length, kernel) for length in CELLS} for kernel in (0, 1000, 10_000))
    typical = {length: statistics.median(alone[length]) for length in CELLS}
    bound = {length: 1.05 * typical[length] + 5 + 2 * 10 for length in CELLS}
    return {
        "cell_50_p95_ms": quantile(beside[50], 0.95),
        "cell_200_ratio": quantile(beside[200], 0.95) / typical[200],
        "cell_long_ratio": max(quantile(long[length], 0.95) / bound[length] for length in CELLS),
        "cell of 50 ms alone, ms": typical[50],
        "cell of 50 ms beside kernels of 10 ms, p95, ms": quantile(long[50], 0.95),
        "cell of 200 ms beside kernels of 10 ms, p95, ms": quantile(long[200], 0.95),
    }


def _cell(node: Node, length: int, kernel: int) -> list[float]:
    """Ms that each took. kernel: us, of the neighbour; 0: there is none."""
    pause, seconds = CELLS[length]
    with node.rig(f"{length}-{kernel}") as rig:
        rig.share("cell", guarantee=200)
        rig.share("trainer", guarantee=800)
        rig.serve()
        if kernel:
            _all_run(rig, {_endless(rig, "trainer", kernel).pid: 800})
        return [us / 1000 for us in _numbers(rig.run("cell", "work", 1000, length, pause * 1000, seconds))[JOINING:]]


def memory(node: Node) -> Values:
    """Allocations of up to a fifth of the share each, by threads and by processes, with a daemon and without."""
    over, refused = 0, 0
    with node.rig() as rig:
        rig.share("threads", guarantee=300, memory=1000)
        rig.share("processes", guarantee=300, memory=1000)
        rig.serve()
        for is_served in (True, False):
            if not is_served:
                rig.kill_daemon()
            said = [rig.run("threads", "allocate", 4, 2500, 200 * MIB, 1)]
            programs = [rig.start("processes", "allocate", 1, 3334, 200 * MIB, seed) for seed in (1, 2, 3)]
            said += [rig.end(program) for program in programs]
            refused += sum(int(one.split()[1]) for one in said)
            over += sum(int(one.split()[3]) for one in said)
        peaks = rig.sample().peaks
    over += sum(peaks[name] > 1000 * MIB for name in ("threads", "processes"))
    return {"memory_over_limit": over, "allocations refused": refused, "most memory, MiB": max(peaks.values()) / MIB}


def killed(node: Node) -> Values:
    """Kill the one of two that has the token, and see when the other one computes."""
    took = []
    with node.rig() as rig:
        for name in ("a", "b"):
            rig.share(name, guarantee=500)
        rig.serve()
        other = _endless(rig, "b", 1000)
        for _ in range(KILLS):
            victim = _endless(rig, "a", 1000, HOLD_MIB="500")
            _all_run(rig, {victim.pid: 500, other.pid: 500})
            _until(lambda v=victim: _runs(rig, v.pid, other.pid))  # type: ignore[misc]
            victim.send_signal(signal.SIGKILL)
            at, before = time.monotonic(), rig.sample().of[other.pid].used
            _until(lambda b=before: rig.sample().of[other.pid].used > b)  # type: ignore[misc]
            took.append(time.monotonic() - at)
            victim.wait()
        _until(lambda: len(rig.sample().living) == 1)
        at = time.monotonic()
        counted = [0]

        def is_free() -> bool:
            counted[0] = sum(slot.used for slot in page.seen(rig.shares / "a" / "container")) + rig.sample().taken
            return counted[0] == 0 or time.monotonic() - at > 1.0

        _until(is_free)
    return {"killed_client_ms": 1000 * max(took), "leaked_bytes": counted[0]}


def restarted(node: Node) -> Values:
    """Kill the daemon under two clients, and start it again after a second."""
    with node.rig() as rig:
        for name, guarantee in (("a", 300), ("b", 700)):
            rig.share(name, guarantee=guarantee)
        rig.serve()
        parts = {_endless(rig, "a", 1000).pid: 300, _endless(rig, "b", 1000).pid: 700}
        _all_run(rig, parts)
        rig.kill_daemon()
        seen = _watch(rig, 1, 0.005)
        gap = max(_longest_gap(seen, pid) for pid in parts)
        at = rig.sample().at
        rig.serve()
        seen = _watch(rig, RESTART, 0.05)
    seconds = ((one, next((two for two in seen if two.at >= one.at + 1000 * MS), None)) for one in seen)
    right = (one.at for one, two in seconds if two is not None and _error(one, two, parts) <= 3)
    return {"daemon_gap_ms": gap / MS, "daemon_back_s": (next(right, at + LONG * 1000 * MS) - at) / 1000 / MS}


def _endless(rig: Rig, share: str, kernel: int, **more: str) -> "Popen[str]":
    return rig.start(share, "work", kernel, ENDLESS, -1, LONG, **more)


def _all_run(rig: Rig, programs: Mapping[int, int]) -> None:
    """Each has had its first turns, and learned how long its kernels take."""
    _until(lambda: all(pid in rig.sample().of and rig.sample().of[pid].used > 200 * MS for pid in programs))


def _until(is_so: Callable[[], bool]) -> None:
    """Asked each millisecond, as what is measured takes a few of them."""
    wait_until(is_so, "the programs on the fake GPU", 30, poll=0.001)


def _watch(rig: Rig, seconds: float, step: float = 1.0) -> list[Sample]:
    """Samples, a step apart, from now on."""
    seen, begun = [rig.sample()], time.monotonic()
    for number in range(1, round(seconds / step) + 1):
        time.sleep(max(0.0, begun + number * step - time.monotonic()))
        seen.append(rig.sample())
    return seen


def _had(one: Sample, two: Sample, pid: int) -> int:
    return two.of[pid].used - one.of[pid].used


def _error(one: Sample, two: Sample, parts: Mapping[int, int]) -> float:
    """The largest difference between the part that one had of what all had and what it was promised, in points."""
    had = {pid: _had(one, two, pid) for pid in parts}
    total = max(1, sum(had.values()))
    return max(abs(100 * had[pid] / total - part / 10) for pid, part in parts.items())


def _runs(rig: Rig, pid: int, other: int) -> bool:
    """Whether only this one computes, of two."""
    one = rig.sample()
    time.sleep(0.002)
    two = rig.sample()
    return _had(one, two, pid) > MS and not _had(one, two, other)


def _longest_gap(seen: list[Sample], pid: int) -> int:
    """Ns between two samples that lie furthest apart without its computing in between."""
    longest, since = 0, seen[0].at
    for one, two in zip(seen, seen[1:], strict=False):
        if _had(one, two, pid):
            since = two.at
        longest = max(longest, two.at - since)
    return longest


def _numbers(said: str) -> list[int]:
    return [int(line) for line in said.split()]
