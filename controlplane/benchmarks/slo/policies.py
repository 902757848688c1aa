"""What decides under the judge: the law, and what it is compared with, each coded as its authors describe it.

The baselines know more than a product would: HPA by requests and Knative are given the true mean service time and the
true number of slots, from which their targets follow. All of them get every scrape at once.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autoscaler import law, observed
from autoscaler.settings import Settings
from controlplane.benchmarks.slo.judge import Policy, Seen, Signal
from controlplane.benchmarks.slo.traces import Trace

TOLERANCE = 0.1  # Kubernetes' HPA: no change within 10 % of the target
STEP_RATIO, STEP_COUNT = 1.0, 4  # HPA's default scale-up: by as many again or four, whichever is more, each 15 s
TARGETS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
WAITING = (0.05, 0.25, 1.0, 4.0)  # requests that wait, a slot
RATIOS = (0.2, 0.3, 0.35, 0.4, 0.5, 0.6)  # of the objective: what nine of ten requests are to take at most
WINDOWS = (60.0, 300.0)  # s over which fewer must have been wanted

Make = Callable[[Trace, float], Policy]  # the second: seconds until a replica serves


def standby(trace: Trace, start: float) -> Policy:
    """The law, with the other replicas loaded and lent."""
    return by_law(trace, start, law.STANDBY)


def alone(trace: Trace, start: float) -> Policy:
    """The law without standby: a replica that is asked for has to start."""
    return by_law(trace, start, Settings().constants())


def with_headroom(part: float) -> Make:
    """The law without standby, and replicas on top of those that it needs, as a part of them."""
    return lambda trace, start: by_law(trace, start, Settings(headroom=part).constants())


def by_law(trace: Trace, start: float, constants: law.Constants) -> Policy:
    """The law with these constants."""
    state, terms = law.State(), law.Terms(trace.objective, start, constants)

    def look(seen: Seen) -> int:
        nonlocal state
        state, wanted = law.look(state, seen.scrape, law.Fleet(seen.on, seen.ready), terms)
        return wanted.replicas

    def signal(seen: Signal) -> int | None:
        nonlocal state
        state, wanted = law.alarmed(
            state, observed.Signal(seen.waiting, seen.rate), seen.at, law.Fleet(seen.on, seen.ready), terms
        )
        return wanted.replicas if wanted.replicas > seen.on else None

    return Policy(look, signal)


@dataclass(slots=True)
class _Stable:
    """Kubernetes' HPA around a desired number: steps up, and a window that holds back falls."""

    window: float
    past: deque[tuple[float, int]]

    def __call__(self, at: float, current: int, desired: int) -> int:
        most = max(current + STEP_COUNT, math.ceil(current * (1 + STEP_RATIO)))
        desired = max(1, min(desired, most))
        self.past.append((at, desired))
        while self.past[0][0] <= at - self.window:
            self.past.popleft()
        return max(desired, max(n for _, n in self.past)) if desired < current else desired


def hpa_cpu(target: float, window: float) -> Make:
    """HPA on CPU: the part of the ready replicas' slots that are in use, over the last 30 s."""

    def make(trace: Trace, start: float) -> Policy:
        stable, scrapes = _Stable(window, deque()), deque[Seen](maxlen=3)

        def look(now: Seen) -> int:
            scrapes.append(now)
            if len(scrapes) < 2 or not now.ready:
                return now.on
            used = (now.busy - scrapes[0].busy) / (now.at - scrapes[0].at) / (now.ready * trace.slots)
            return stable(now.at, now.on, _proportional(now, used / target))

        return Policy(look)

    return make


def hpa_requests(target: float, window: float) -> Make:
    """HPA on requests a second of each replica, over the last 60 s; target: of what one replica can do."""

    def make(trace: Trace, start: float) -> Policy:
        able = trace.slots / float(trace.service.mean())
        stable, scrapes = _Stable(window, deque()), deque[Seen](maxlen=5)

        def look(now: Seen) -> int:
            scrapes.append(now)
            if len(scrapes) < 2:
                return now.on
            rate = (now.answered - scrapes[0].answered) / (now.at - scrapes[0].at)
            return stable(now.at, now.on, _proportional(now, rate / max(1, now.ready) / able / target))

        return Policy(look)

    return make


def knative(target: float, window: float) -> Make:
    """Knative's pod autoscaler: requests in the system over 60 s; in panic over 6 s, when they are twice the target."""

    def make(trace: Trace, start: float) -> Policy:
        stable, seen = _Stable(window, deque()), deque[tuple[float, int]]()
        calm_at = -math.inf

        def look(now: Seen) -> int:
            nonlocal calm_at
            inside = now.waiting + now.running
            seen.append((now.at, inside))
            while seen[0][0] <= now.at - 60.0:
                seen.popleft()
            able = target * trace.slots
            desired = math.ceil(sum(n for _, n in seen) / len(seen) / able)
            panic = math.ceil(inside / able)  # scrapes are 15 s apart, so the newest stands for its 6 s
            if panic >= 2 * max(1, now.ready):
                calm_at = now.at + 60.0
            if now.at < calm_at:
                return max(now.on, panic, desired)
            return stable(now.at, now.on, desired)

        return Policy(look)

    return make


def keda(waiting: float, window: float) -> Make:
    """KEDA on the queue: so many requests that wait for each slot ask for one replica."""

    def make(trace: Trace, start: float) -> Policy:
        stable = _Stable(window, deque())

        def look(now: Seen) -> int:
            return stable(now.at, now.on, _proportional(now, now.waiting / max(1, now.ready) / (waiting * trace.slots)))

        return Policy(look)

    return make


def llm_d(target: float, window: float) -> Make:
    """llm-d's law: how long nine of ten requests take, over the objective, at most 2, on average over 45 s.

    Theirs is the larger of this ratio for the first token and for each further one; here requests have one time.
    """

    def make(trace: Trace, start: float) -> Policy:
        stable, ratios = _Stable(window, deque()), deque[float](maxlen=3)

        def look(now: Seen) -> int:
            if now.slow is None:
                return now.on
            ratios.append(min(2.0, now.slow / trace.objective))
            return stable(now.at, now.on, _proportional(now, sum(ratios) / len(ratios) / target))

        return Policy(look)

    return make


def static(replicas: int) -> Make:
    """So many replicas from the beginning to the end."""
    return lambda trace, start: Policy(lambda _: replicas)


def _proportional(now: Seen, ratio: float) -> int:
    """HPA's rule: the ready replicas times how far the metric is from its target; as they are within the tolerance."""
    return now.on if abs(ratio - 1) <= TOLERANCE else math.ceil(max(1, now.ready) * ratio)


def _family(name: str, make: Callable[[float, float], Make], targets: tuple[float, ...]) -> Mapping[str, Make]:
    return {f"{name} {target:g} {window:.0f}s": make(target, window) for target in targets for window in WINDOWS}


BASELINES: Mapping[str, Make] = {
    **_family("hpa-cpu", hpa_cpu, TARGETS),
    **_family("hpa-rps", hpa_requests, TARGETS),
    **_family("knative", knative, TARGETS),
    **_family("keda", keda, WAITING),
    **_family("llm-d", llm_d, RATIOS),
}
# With the law's standby: all replicas loaded, those that do not serve lent. A fall costs next to nothing then.
WITH_STANDBY: Mapping[str, Make] = {f"hpa-rps {target:g}": hpa_requests(target, WINDOWS[0]) for target in TARGETS}
