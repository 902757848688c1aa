"""The runs of the mix, two at a time, each kept as soon as it has ended."""

import json
import os
from collections.abc import Callable, Iterable
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


def played(data: Path, of: str, keys: Iterable[Key], kept: Kept, progress: Progress) -> dict[Key, Told]:
    """Play what is not kept yet. Keys of the answer say nothing of the trainings' length."""
    wanted = list(dict.fromkeys(keys))
    missing = [key for key in wanted if kept.get(of, name_of(key)) is None]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if missing:
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            waits = {pool.submit(one, data, of, key): key for key in missing}
            for number, done in enumerate(as_completed(waits), 1):
                key = waits[done]
                kept.add(of, {name: float(value) for name, value in asdict(done.result()).items()}, name_of(key))
                progress(
                    number / len(missing), f"{of}: {number} of {len(missing)}: {key.which}, {key.policy}, {key.seed}"
                )
    return {replace(key, work=1.0): Told(**kept.get(of, name_of(key))) for key in wanted}


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
