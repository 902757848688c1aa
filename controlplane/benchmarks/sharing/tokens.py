"""`tokens`: how a GPU's time is divided among clients that share it, in the model of `gpushare.timeline`.

A client's kernels take 50 us to 10 ms (log-uniform, drawn for each client), its bursts with their gaps 50 to 500 ms
(log-uniform). When the token goes on, the GPU idles for 0.2 ms; for 0.55 ms after kernels of 3 ms and more, which are
waited for: that is what our own prototype of the library and the daemon measured. 20 draws; each figure is the
unfavourable end of the 95 % interval of their mean.

- `share_error_points`: two clients with 30 and 70 % or four with 10 to 40 %, all with work at all times; in each second
  the largest difference between the part that a client had of what all had and what it was promised; the median over
  the seconds, of the worse set. `share_error_10s_points`: the same over 10 s.
- `lone_client_percent`: of the GPU's time, what a client alone on it gets.
- `throughput_ratio`: four clients that need a GPU for 5 to 40 % of the time, on one GPU: what they get done together,
  over what one gets done that has a GPU to itself; `throughput_ratio_duty_40`: three that need it for 40 %.
- `stretch_p95`: how much longer a burst with its gap takes for the four than alone.

Beside it: Gemini's window rule, plain time slices of 2 ms, and a static split into equal parts. Slices reach the same
throughput: what the token gives is the share that was promised, and short waits for clients that rarely compute.
"""

import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

from controlplane.benchmarks.harness.figure import Figure, Options, Progress, Result
from controlplane.benchmarks.sharing.divisions import Slices, Window
from gpushare.gpu import WHOLE, Share
from gpushare.timeline import Bursts, Client, Division, Timeline
from gpushare.tokens import MILLISECOND, RULE, Tokens

SECOND = 1000 * MILLISECOND
DRAWS, FIRST = 20, 10  # seeds 0 to 4 were used to find the rule
T = 2.093  # of Student's distribution with 19 degrees of freedom, 97.5 %
SETS = ((300, 700), (100, 200, 300, 400))
LENGTH = 60 * SECOND
ENDLESS = 10**15
RULES: dict[str, Callable[[], Division]] = {"token": Tokens, "window": Window, "slices": Slices}


def run(options: Options, progress: Progress) -> Result:
    """Divide the time of a GPU for each draw, by each rule."""
    seeds = range(FIRST + options.seeds[0], FIRST + options.seeds[0] + (options.repeat or DRAWS))
    errors: dict[tuple[str, int], float] = {}
    works: dict[str, tuple[list[float], list[float], list[float]]] = {}
    for number, rule in enumerate(RULES):
        progress(number / len(RULES), f"{rule}: shares and throughput")
        for length in (1, 10):
            errors[rule, length] = max(high([_error(rule, parts, seed, length) for seed in seeds]) for parts in SETS)
        both = [_worked(rule, _duties(seed), seed) for seed in seeds]
        alike = [_worked(rule, (0.4,) * 3, seed)[0] for seed in seeds]
        works[rule] = [done for done, _ in both], [stretch for _, stretch in both], alike
    mixed, stretches, equal = works["token"]
    figures = (
        Figure("tokens.share_error_points", round(errors["token", 1], 2), "points", 1.5),
        Figure("tokens.share_error_10s_points", round(errors["token", 10], 2), "points", 0.5),
        Figure("tokens.lone_client_percent", round(low([_lone(seed) for seed in seeds]), 2), "%", 99.0, True),
        Figure("tokens.throughput_ratio", round(low(mixed), 3), "x", 3.0, True),
        Figure("tokens.throughput_ratio_duty_40", round(low(equal), 3), "x", 1.9, True),
        Figure("tokens.stretch_p95", round(high(stretches), 2), "x"),
    )
    return Result(figures, tuple(_notes(errors, works, list(seeds))))


def low(values: Sequence[float]) -> float:
    """The low end of the 95 % interval of the mean."""
    return statistics.mean(values) - _half(values)


def high(values: Sequence[float]) -> float:
    """The high end of the 95 % interval of the mean."""
    return statistics.mean(values) + _half(values)


def _half(values: Sequence[float]) -> float:
    return T * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _notes(
    errors: dict[tuple[str, int], float],
    works: dict[str, tuple[list[float], list[float], list[float]]],
    seeds: list[int],
) -> Iterator[str]:
    for rule, (mixed, stretches, equal) in works.items():
        yield (
            f"{rule}: error {errors[rule, 1]:.2f} points in 1 s, {errors[rule, 10]:.2f} in 10 s; throughput of four "
            f"{low(mixed):.2f} to {high(mixed):.2f}, stretch p95 {high(stretches):.2f}; of three with duty 40 % "
            f"{low(equal):.2f} to {high(equal):.2f}"
        )
    split, third = [_static(_duties(seed)) for seed in seeds], _static((0.4,) * 3)
    yield f"static split: throughput of four {low(split):.2f} to {high(split):.2f}; of three with duty 40 % {third:.2f}"
    yield f"{len(seeds)} draws of 60 s of a GPU's time"


def _cost(last: Client, _next: Client) -> int:
    return 200 if last.kernel < 3 * MILLISECOND else 550


def _timeline(clients: Sequence[Client], rule: str) -> Timeline:
    """Slices change hands for nothing, wherever a kernel is."""
    if rule != "slices":
        return Timeline(clients, RULES[rule](), _cost, RULE.idle)
    for client in clients:
        client.kernel = 1
    return Timeline(clients, Slices(), lambda _last, _next: 0, 0)


def _kernel(draw: random.Random) -> int:
    return round(math.exp(draw.uniform(math.log(50), math.log(10_000))))


def _error(rule: str, parts: Sequence[int], seed: int, seconds: int) -> float:
    """The median over windows of so many seconds, in points."""
    draw = random.Random(f"{seed}:{parts}")  # noqa: S311 - a load, not a secret
    clients = [
        Client(f"c{number}", Share(part, WHOLE, 0), _kernel(draw), repeat((ENDLESS, 0)))
        for number, part in enumerate(parts)
    ]
    _timeline(clients, rule).play(LENGTH)
    windows = range(0, LENGTH - seconds * SECOND + 1, seconds * SECOND)
    return statistics.median(_off(clients, start, start + seconds * SECOND) for start in windows)


def _off(clients: Sequence[Client], start: int, stop: int) -> float:
    had = [client.used_within(start, stop) for client in clients]
    return max(100 * abs(one / sum(had) - c.share.guarantee / WHOLE) for one, c in zip(had, clients, strict=True))


def _lone(seed: int) -> float:
    draw = random.Random(f"{seed}:alone")  # noqa: S311
    client = Client("alone", Share(500, WHOLE, 0), _kernel(draw), repeat((ENDLESS, 0)))
    _timeline([client], "token").play(LENGTH)
    return 100 * client.used_within(0, LENGTH) / LENGTH


def _duties(seed: int) -> tuple[float, ...]:
    draw = random.Random(f"{seed}:duties")  # noqa: S311
    return tuple(draw.uniform(0.05, 0.4) for _ in range(4))


def _worked(rule: str, duties: Sequence[float], seed: int) -> tuple[float, float]:
    """What they got done over what one alone does, and the 95th percentile of how much longer each burst took."""
    draw = random.Random(f"{seed}:{len(duties)}:work")  # noqa: S311
    share = Share(WHOLE // len(duties), WHOLE, 0)
    clients = [
        Client(f"c{number}", share, _kernel(draw), _bursts(random.Random(draw.random()), duty))  # noqa: S311
        for number, duty in enumerate(duties)
    ]
    _timeline(clients, rule).play(LENGTH)
    stretches = sorted(one for client in clients for one in client.stretches)
    return sum(client.alone for client in clients) / LENGTH, stretches[math.ceil(0.95 * len(stretches)) - 1]


def _bursts(draw: random.Random, duty: float) -> Bursts:
    while True:
        both = math.exp(draw.uniform(math.log(50 * MILLISECOND), math.log(500 * MILLISECOND)))
        yield max(1, round(both * duty)), round(both * (1 - duty))


def _static(duties: Sequence[float]) -> float:
    """Each computes on its own part of the GPU at that part's speed."""
    return sum(1 / (len(duties) * duty + 1 - duty) for duty in duties)
