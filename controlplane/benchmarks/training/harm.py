"""Changes on trial whose truth is known: which are kept. Step times have the noise of `planted`."""

import numpy as np

from autoscaler.experiment.verdict import DEFAULT, Terms, Verdict, judge
from controlplane.benchmarks.training.planted import correlated


def kept_percent(truth: float, noise: float, seed: int, count: int, terms: Terms = DEFAULT) -> float:
    """Of so many changes that make a training faster by this part (below 0: slower), the percent that are kept."""
    rng = np.random.default_rng([seed, round(1e4 * noise)])
    times = correlated(rng, terms.before + terms.most, count, noise)
    times[terms.before :] /= 1 + truth
    return 100 * sum(_is_kept(column.tolist(), terms) for column in times.T) / count


def _is_kept(times: list[float], terms: Terms) -> bool:
    before, after = times[: terms.before], times[terms.before :]
    for seen in range(terms.fewest, terms.most + 1):
        verdict = judge(before, after[:seen], terms).verdict
        if verdict is not Verdict.UNDECIDED:
            return verdict is Verdict.KEEP
    return False
