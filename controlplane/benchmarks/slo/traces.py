"""The ten kinds of load that a service is judged on: when each request comes and how long its service takes.

Six are made from the shared traces, four are drawn. The objective of each is three times the p95 of its service times,
so a request that waits no longer than twice that is on time. What a seed draws differs from trace to trace.
"""

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from controlplane.benchmarks.harness.figure import BenchmarkError

Floats = npt.NDArray[np.float64]

OBJECTIVE = 3.0  # times the p95 of the service times
LONGEST = 2.5  # times that p95: longer service times are cut
STEP = 30.0  # s: the rate of drawn arrivals is taken as constant for so long
DAY = 86_400.0
PROMPT_TOKENS, TOKEN_SECONDS = 1e4, 0.02  # of the prompt in a second; s of each token of the answer


@dataclass(frozen=True, slots=True)
class Trace:
    """at: arrivals in s, ascending from 0 on; service: s of each; slots: of one replica; objective and length in s.

    prefill: of each request's service the s until its first token; 0 where its tokens are not known.
    """

    name: str
    at: Floats
    service: Floats
    slots: int
    objective: float
    seconds: float
    prefill: Floats = field(default_factory=lambda: np.zeros(0))

    @property
    def work_gpu_seconds(self) -> float:
        """Seconds of a replica that the requests need at least."""
        return float(self.service.sum()) / self.slots

    @property
    def max_replicas(self) -> int:
        """What an operator who knows the busiest minute might allow: one and a half times its work."""
        return replicas_for(self.at, self.service / self.slots)


def replicas_for(at: Floats, seconds: Floats) -> int:
    """One and a half times what the busiest minute needs of requests that each take so many seconds of a replica."""
    minute = np.bincount((at // 60).astype(np.int64), weights=seconds)
    return max(2, math.ceil(1.5 * float(minute.max()) / 60))


Maker = Callable[[Path, np.random.Generator], Trace]


def load(name: str, data: Path, seed: int) -> Trace:
    """One of NAMES, as this seed draws it. Raises BenchmarkError where its file is missing."""
    number = list(MAKERS).index(name)
    return MAKERS[name](data / "inference", np.random.default_rng([seed, number]))


def with_tokens(trace: Trace, data: Path, seed: int) -> Trace:
    """The same requests with the time until the first token of each, which is told of three traces only.

    Each request of the others draws one of azure's, and has as long a part of its own time for its prompt: it is as if
    both numbers of tokens were scaled, so that alone it takes as long as it did.
    """
    if len(trace.prefill):
        return trace
    azure = _azure(data / "inference", np.random.default_rng())
    rng = np.random.default_rng([seed, list(MAKERS).index(trace.name), 1])
    drawn: Floats = rng.choice(azure.prefill / azure.service, len(trace.at))
    return replace(trace, prefill=drawn * trace.service)


# --- from files ------------------------------------------------------------------------------


def _azure(folder: Path, rng: np.random.Generator) -> Trace:
    path = folder / "azure_llm_2023_conv.csv"
    at, service, prefill = _tokens(path, "arrival_s", "context_tokens", "generated_tokens", 1.0)
    return _trace("azure", at, service, 4, prefill=prefill)


def _azure8(folder: Path, rng: np.random.Generator) -> Trace:
    one = _azure(folder, rng)
    at, service = _copies(one.at, one.service, 8, 15.0, rng)
    return _trace("azure8", at, service, 8, prefill=np.tile(one.prefill, 8))


def _mooncake(folder: Path, rng: np.random.Generator) -> Trace:
    path = folder / "mooncake_conversation.csv"
    at, service, prefill = _tokens(path, "arrival_ms", "input_tokens", "output_tokens", 1000.0)
    spread = at + rng.uniform(0.0, 3.0, len(at))  # upstream's times are in steps of 3 s
    return _trace("mooncake", spread, service, 4, prefill=prefill)


def _genai(name: str, first: float, last: float) -> Maker:
    def make(folder: Path, rng: np.random.Generator) -> Trace:
        rows = list(_rows(folder / "genai2026_qps_57s_q1_q3_q4.csv"))
        t = np.array([float(row["t_s"]) for row in rows])
        rate = np.array([float(row["generative_qps"]) for row in rows])
        inside = (t >= first) & (t <= last)
        at = _poisson(lambda x: np.interp(x + first, t[inside], rate[inside]), last - first, rng)
        return _trace(name, at, _lognormal(len(at), 20.0, 0.69, rng), 1, last - first)

    return make


def _genai13d(folder: Path, rng: np.random.Generator) -> Trace:
    rows = list(_rows(folder / "genai2026_requests_first_half.csv.gz"))
    at = np.array([float(row["arrival_s"]) for row in rows])
    told = np.array([float(row["exec_time_s"] or math.nan) for row in rows])
    service = np.where(np.isnan(told), np.nanmedian(told), told)
    return _trace("genai13d", *_copies(at - at.min(), np.maximum(service, 0.1), 20, 900.0, rng), 1)


def _tokens(path: Path, when: str, prompt: str, answer: str, per_second: float) -> tuple[Floats, Floats, Floats]:
    """Arrivals, service times, and the part of these until the first token."""
    rows = list(_rows(path))
    at = np.array([float(row[when]) / per_second for row in rows])
    prefill = np.array([float(row[prompt]) / PROMPT_TOKENS for row in rows])
    return at, prefill + np.array([TOKEN_SECONDS * float(row[answer]) for row in rows]), prefill


def _copies(at: Floats, service: Floats, times: int, spread: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The same requests so many times over, each copy of each request shifted by up to `spread` s."""
    moved = np.tile(at, times) + np.repeat(rng.uniform(-spread, spread, times), len(at))
    return moved, np.tile(service, times)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        raise BenchmarkError(f"{path} is missing. Set WEFT_DATA to the folder with the shared traces.")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from csv.DictReader(lines)


# --- drawn -----------------------------------------------------------------------------------


def _ramp(_: Path, rng: np.random.Generator) -> Trace:
    ends = np.cumsum([0.0, 600.0, 1800.0, 1200.0, 1800.0, 600.0])
    return _short("ramp", lambda x: np.interp(x, ends, [5.0, 5.0, 250.0, 250.0, 5.0, 5.0]), 6000.0, rng)


def _step(_: Path, rng: np.random.Generator) -> Trace:
    return _short("step", lambda x: np.where((x % 2100 >= 900) & (x < 6300), 150.0, 50.0), 6900.0, rng)


def _spike(_: Path, rng: np.random.Generator) -> Trace:
    def rate(x: Floats) -> Floats:
        high = np.interp(x % 1200.0, [0.0, 1065.0, 1080.0, 1185.0, 1200.0], [50.0, 50.0, 200.0, 200.0, 50.0])
        return np.where(x < 6000.0, high, 50.0)

    return _short("spike", rate, 6600.0, rng)


def _diurnal(_: Path, rng: np.random.Generator) -> Trace:
    burst = np.where(rng.random(2 * 288) < 0.02, 1.6, 1.0)
    rate = lambda x: 12 * (1 + 0.5 * np.sin(2 * np.pi * x / DAY)) * burst[(x // 300).astype(np.int64)]  # noqa: E731
    at = _poisson(rate, 2 * DAY, rng)
    return _trace("diurnal", at, _lognormal(len(at), 2.0, 0.7, rng), 4, 2 * DAY)


def noise(seed: int) -> Trace:
    """Four hours of 200 requests/s on average, whose rate in each quarter of a minute differs with a variation of 0.3.

    No part of NAMES: what is judged on it is how often a service gets larger and smaller in turns for nothing.
    """
    rng = np.random.default_rng([seed, len(MAKERS)])
    rates = 200.0 * np.maximum(0.0, rng.normal(1.0, 0.3, 4 * 240))
    return _short("noise", lambda x: rates[(x // 15.0).astype(np.int64)], 4 * 3600.0 - 1.0, rng)


def _short(name: str, rate: Callable[[Floats], Floats], seconds: float, rng: np.random.Generator) -> Trace:
    at = _poisson(rate, seconds, rng, step=1.0)
    return _trace(name, at, _lognormal(len(at), 0.25, 0.7, rng), 4, seconds)


def _poisson(rate: Callable[[Floats], Floats], seconds: float, rng: np.random.Generator, step: float = STEP) -> Floats:
    starts = np.arange(0.0, seconds, step)
    counts = rng.poisson(rate(np.minimum(starts + step / 2, seconds)) * step)
    return np.repeat(starts, counts) + rng.random(int(counts.sum())) * step


def _lognormal(count: int, mean: float, variation: float, rng: np.random.Generator) -> Floats:
    sigma = math.sqrt(math.log(1 + variation**2))
    return rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, count)


def _trace(
    name: str, at: Floats, service: Floats, slots: int, seconds: float | None = None, prefill: Floats | None = None
) -> Trace:
    at = at - min(0.0, float(at.min()))
    order = np.argsort(at, kind="stable")
    p95 = float(np.quantile(service, 0.95))
    cut = np.minimum(service, LONGEST * p95)
    until_token = np.zeros(0) if prefill is None else (prefill * cut / service)[order]
    length = float(at.max()) + 1.0 if seconds is None else seconds
    return Trace(name, at[order], cut[order], slots, OBJECTIVE * p95, length, until_token)


MAKERS: dict[str, Maker] = {
    "azure": _azure,
    "azure8": _azure8,
    "mooncake": _mooncake,
    "genaiQ1": _genai("genaiQ1", 0.0, 20_520.0),
    "genaiQ34": _genai("genaiQ34", 41_097.0, 82_081.0),
    "genai13d": _genai13d,
    "ramp": _ramp,
    "step": _step,
    "spike": _spike,
    "diurnal": _diurnal,
}
NAMES: Iterable[str] = tuple(MAKERS)
DRAWN = ("ramp", "step", "spike", "diurnal")  # these need no file
HARD = ("step", "spike")  # a call of 10 s is too slow for them, whatever the law
SPARSE = "genaiQ34"
