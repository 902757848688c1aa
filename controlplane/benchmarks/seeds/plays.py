"""The runs of the mix, each kept as soon as it has ended."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import cast

from controlplane.benchmarks.harness.figure import Progress
from controlplane.benchmarks.mix import dragon, draws, runs
from controlplane.benchmarks.mix.runs import Key, Told
from controlplane.benchmarks.seeds.kept import Kept
from controlplane.benchmarks.training.tables import Application

PROCESSES = 2
MIX, MANIFESTS = "mix", "manifests"  # names of what is kept
MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")  # of the tables
TABLES = Path("training") / "pollux" / "profile_placements.csv"


def played(
    data: Path, of: str, keys: Iterable[Key], kept: Kept, progress: Progress, processes: int = PROCESSES
) -> dict[Key, Told]:
    """Play what is not kept yet, so many at a time; 1: in this process.

    Keys of the answer say nothing of the trainings' length.
    """
    wanted = list(dict.fromkeys(keys))
    missing = [key for key in wanted if kept.get(of, name_of(key)) is None]
    for number, (key, told) in enumerate(_each(data, of, missing, processes), 1):
        kept.add(of, {name: float(value) for name, value in asdict(told).items()}, name_of(key))
        progress(number / len(missing), f"{of}: {number} of {len(missing)}: {key.which}, {key.policy}, {key.seed}")
    return {replace(key, work=1.0): Told(**kept.get(of, name_of(key))) for key in wanted}


def _each(data: Path, of: str, keys: Sequence[Key], processes: int) -> Iterator[tuple[Key, Told]]:
    """The runs as they end."""
    if processes == 1 or not keys:
        yield from ((key, one(data, of, key)) for key in keys)
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waits = {pool.submit(one, data, of, key): key for key in keys}
        yield from ((waits[done], done.result()) for done in as_completed(waits))


def one(data: Path, of: str, key: Key) -> Told:
    """Play one run."""
    return runs.measured(_WORLDS[of](models(data, key.which), key), key.policy)


_WORLDS: dict[str, Callable[[dict[str, Application], Key], draws.World]] = {
    MIX: runs.world_of,
    MANIFESTS: dragon.world_of,
}


def models(data: Path, which: str) -> dict[str, Application]:
    """The measured models. For parameter servers, whose speed is a formula, their number is enough: draws then are the
    same without the tables."""
    if which == "ps" and not (data / TABLES).exists():
        return dict.fromkeys(MODELS, cast(Application, None))
    return runs.applications(data)


def name_of(key: Key) -> str:
    """Its name in what is kept."""
    return json.dumps(asdict(key))
