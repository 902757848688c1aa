"""How much is played: the full form, or the short one, which needs no data and takes a minute."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from controlplane.benchmarks.mix import dragon, runs
from controlplane.benchmarks.mix.draws import SETS
from controlplane.benchmarks.mix.mixed import BASELINES, OURS
from controlplane.benchmarks.mix.policies import ALONE, POOLED, POSTER
from controlplane.benchmarks.mix.runs import Key
from controlplane.benchmarks.slo import traces

KUBESHARE = "native, pool"  # the poster's Default+KubeShare: whole trainings, four replicas, notebooks share GPUs
BESIDE = tuple(name for name in ALONE if name not in BASELINES)
STRONG = ("binpack, pool", "kueue-like, pool", "edragon, pool")  # what comes closest to ours
# What ours consists of, one after the other, by the names of policies.
STEPS: tuple[tuple[str, str], ...] = (
    ("+gang", "gang"),
    ("+locality", "+locality, no moves"),
    ("+sharing", "+sharing, no moves"),
    ("+elastic", "+elastic, no moves"),
    ("+service to need", "+service to need, no moves"),
    ("+lending", "ours, no moves"),
    ("+re-allocation", "ours"),
    ("+on demand", "ours, on demand"),
    ("+harvest", OURS),
)


@dataclass(frozen=True, slots=True)
class Form:
    """sets: of trainings; seeds: of what ours is held against; few: of all else; crowding: GPUs of 16 that others hold,
    beside 12. times: how many times as large clusters are. loads: of trainings that come at random. work: length of
    trainings over the usual. traces: of services. baselines, beside, curve, at_random, steps: policies and parts that
    are played. is_short: benchmarks that take long are shown as they are stored, or not at all. processes: that play.
    """

    sets: tuple[str, ...] = SETS
    seeds: int = runs.SEEDS
    few: int = runs.FEW
    crowding: tuple[int, ...] = runs.CROWDING
    times: tuple[int, ...] = (8, 32)
    loads: tuple[float, ...] = runs.LOADS
    work: float = 1.0
    traces: tuple[str, ...] = traces.DRAWN
    baselines: tuple[str, ...] = (*BASELINES, *BESIDE, *POOLED, *POSTER)
    curve: tuple[str, ...] = ("native", "gang", "binpack", "kueue-like", "edragon", *STRONG)
    scaled: tuple[str, ...] = ("native", "binpack", "kueue-like", "edragon", *STRONG)
    at_random: tuple[str, ...] = dragon.RANDOM
    manifests: tuple[str, ...] = dragon.IN_MIX
    alone: tuple[str, ...] = dragon.BY_ITSELF
    steps: tuple[tuple[str, str], ...] = STEPS
    is_short: bool = False
    processes: int = 2

    @property
    def first(self) -> Sequence[int]:
        """The seeds, none of which a constant was chosen on."""
        return range(runs.FIRST_SEED, runs.FIRST_SEED + self.seeds)

    def mix(self) -> Iterator[Key]:
        """The runs of the mix: what ours is held against first."""
        yield from self._all(product(self.sets, (OURS, *self.baselines), self.first))
        few = self.first[: self.few]
        yield from self._all(product(self.sets, (OURS, *self.curve), few, self.crowding))
        yield from self._all(product(self.sets, ("native", *(policy for _, policy in self.steps)), few))
        for number, times in enumerate(self.times):
            some = few if not number else few[:1]
            for policy, seed in product((OURS, *self.scaled), some):
                yield Key(self.sets[-1], policy, seed, times=times, work=self.work)

    def by_manifests(self) -> Iterator[Key]:
        """The runs of DRAGON's manifests, and of trainings that come at random."""
        few = self.first[: self.few]
        sets = [which for which in dragon.SETS if which in self.sets]
        yield from self._all(product(sets, (OURS, *self.manifests), few))
        yield from self._all(product(sets, (OURS, *self.alone), few, (dragon.NOTHING_ELSE,)))
        for load, policy, seed in product(self.loads, (OURS, *self.at_random), few):
            yield Key(self.sets[-1], policy, seed, load=load, work=self.work)

    def _all(self, cells: Iterator[tuple[object, ...]]) -> Iterator[Key]:
        for cell in cells:
            yield replace(Key(*cell), work=self.work)  # type: ignore[arg-type]  # a product has no types


def full(seeds: int | None = None) -> Form:
    """The full form, or with fewer seeds than its own."""
    count = seeds or runs.SEEDS
    return Form(seeds=count, few=min(count, runs.FEW))


SHORT = Form(
    sets=("ps",), seeds=1, few=1, crowding=(4,), times=(2,), loads=(0.9,), work=0.1, traces=("spike",),
    baselines=("native", "gang", "binpack", "kueue-like", "dragon", "edragon", *POOLED, *POSTER),
    curve=("native", "binpack", "edragon"), scaled=("native", "binpack"), at_random=("native", "binpack", "edragon"),
    manifests=("native", "edragon"), alone=("native", "binpack"), is_short=True,
)  # fmt: skip
