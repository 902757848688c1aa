"""`sse`: what 200 open pages' streams cost the embedded demo.

The processor time and memory of the one process, with the streams and without, in turns: the demo itself is not
counted. Every stream is read, so that what is sent arrives.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import closing

import aiohttp

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result

Used = tuple[float, float]  # percent of one core, MiB
PORT = 8767
CLIENTS = 200
CORE_PERCENT, MIB = 20.0, 100.0
SECONDS, SETTLE_SECONDS = 20.0, 5.0
TURNS = 3


def run(options: Options, progress: Progress) -> Result:
    """Measure in turns without and with clients."""
    clients, turns = options.jobs or CLIENTS, options.repeat or TURNS
    without: list[Used] = []
    beside: list[Used] = []
    heard = 0
    with processes.weft(PORT, "--seed", str(options.seeds[0])) as weft:
        weft.ready()
        with closing(weft.sign_in()) as client:
            cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        time.sleep(SETTLE_SECONDS * 4)  # until the demo's day has begun
        for turn in range(turns):
            progress(turn / turns, "the demo alone")
            without.append(_measure(weft))
            progress((turn + 0.5) / turns, f"{clients} streams")
            used, count = asyncio.run(_listened(weft, cookie, clients))
            beside.append(used)
            heard += count
        weft.stop()
    if heard < clients * turns:
        raise BenchmarkError(f"{clients} streams heard {heard} messages in {turns} turns; each should hear some.")
    core = statistics.median(b[0] - a[0] for a, b in zip(without, beside, strict=True))
    mib = max(b[1] - a[1] for a, b in zip(without, beside, strict=True))
    return Result(
        (
            Figure("sse.core_percent", round(max(0.0, core), 1), "%", CORE_PERCENT),
            Figure("sse.mib", round(max(0.0, mib), 1), "MiB", MIB),
        ),
        (
            f"{clients} clients, {heard / clients / turns / SECONDS:.1f} messages a second each",
            "core % alone and with them: " + _pairs(without, beside, 0),
            "MiB alone and with them: " + _pairs(without, beside, 1),
        ),
    )


def _pairs(without: Sequence[Used], beside: Sequence[Used], which: int) -> str:
    return ", ".join(f"{a[which]:.0f} and {b[which]:.0f}" for a, b in zip(without, beside, strict=True))


async def _listened(weft: processes.Weft, cookie: str, clients: int) -> tuple[Used, int]:
    """Measure while so many clients read their streams; also how many messages they heard."""
    heard = 0

    async def listen(session: aiohttp.ClientSession) -> None:
        nonlocal heard
        async with session.get("/stream") as answer:
            answer.raise_for_status()
            async for line in answer.content:
                heard += line.startswith(b"data:")

    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        weft.address, headers={"Cookie": cookie}, timeout=timeout, connector=connector
    ) as session:
        tasks = [asyncio.create_task(listen(session)) for _ in range(clients)]
        await asyncio.sleep(SETTLE_SECONDS)
        heard = 0
        used = await asyncio.to_thread(_measure, weft)
        failed = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if failed:
        raise BenchmarkError(f"{len(failed)} of {clients} streams ended by themselves; none should.")
    return used, heard


def _measure(weft: processes.Weft) -> Used:
    """(percent of one core over the next seconds, MiB resident at their end)."""
    before, began = processes.core_seconds(weft.process.pid), time.monotonic()
    time.sleep(SECONDS)
    seconds = time.monotonic() - began
    used = processes.core_seconds(weft.process.pid) - before
    return 100 * used / seconds, processes.resident_mib(weft.process.pid)
