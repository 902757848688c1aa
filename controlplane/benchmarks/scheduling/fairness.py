"""`fairness`: the shared Helios demand of 8 teams over a month on 200 GPUs, decided by the scheduler's own core.

How the demand becomes jobs is written in `simulator/worlds/helios.py`, what happens to them in
`simulator/replay/sharing.py`. The half-life is the default of the settings, one week: of the 31 days the first week
fills the averages, the rest counts.

- `max_entitlement_error_percent`: each hour from the second half-life on, for each team whose demand has covered its
  entitlement for a half-life without a break: |decayed use - entitlement decayed alike|, in percent of the cluster.
  Entitlement is what the core says (`scheduler/quota/entitlement.py`) every ten minutes, held until the next time. It
  depends on demand, which jumps within minutes, so both are averaged with the same kernel: a team is not in arrears for
  a time in which it wanted nothing.
- `unfair_waits`: jobs that their team's nominal quota covers and that wait longer than minimum run time + checkpoint
  grace while other teams borrow preemptible GPUs, enough of them in whole jobs to make the room. A job is not taken
  where its team would fall below its own nominal quota; the note counts the waits without that exception.
- `worn_starts_beyond_nominal`: starts of jobs preempted three times in 24 h that made their team borrow.
"""

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.simulator.replay.sharing import Outcome, Sharing
from controlplane.simulator.worlds import helios
from controlplane.simulator.worlds.presets import PresetError
from scheduler.model.settings import Settings

GOAL_PERCENT = 5.0
DAY = 86_400.0


def run(options: Options, progress: Progress) -> Result:
    """Run the month, for each seed, and judge it. `--jobs` takes only the first ones. Raises BenchmarkError."""
    try:
        demand = helios.read_demand(options.data / helios.FILE)
    except PresetError as error:
        raise BenchmarkError(str(error)) from error
    settings = Settings()
    month = len(next(iter(demand.values())).gpus) * helios.STEP
    seen: list[Outcome] = []
    for number, seed in enumerate(options.seeds):
        jobs = helios.jobs(demand, seed)[: options.jobs]
        until = month if options.jobs is None else jobs[-1].at
        world = Sharing(helios.nodes(), helios.teams(demand), helios.quotas(demand), settings)

        def told(part: float, number: int = number) -> None:
            progress((number + part) / len(options.seeds), f"day {part * until / DAY:.0f}")  # noqa: B023

        seen.append(world.run(jobs, until, told))
    return _result(seen, settings.use_half_life_seconds)


def _result(seen: list[Outcome], half_life: float) -> Result:
    judged = [errors(outcome, half_life, is_covered=True) for outcome in seen]
    of_all = [errors(outcome, half_life, is_covered=False) for outcome in seen]
    plain = [errors(outcome, half_life, is_covered=True, is_plain=True) for outcome in seen]
    if not any(judged):
        raise BenchmarkError("No team's demand covered its entitlement for a half-life. Run more jobs.")
    return Result(
        (
            Figure("fairness.max_entitlement_error_percent", round(_worst(judged), 2), "%", GOAL_PERCENT),
            Figure("fairness.unfair_waits", float(sum(len(one.unfair) for one in seen)), "", 0),
            Figure("fairness.worn_starts_beyond_nominal", float(sum(o.worn_beyond_nominal for o in seen)), "", 0),
        ),
        (
            f"half-life {half_life / DAY:g} days; {sum(map(len, judged))} team hours judged, of "
            f"{sum(map(len, of_all))} after the first half-life; the worst of all of them {_worst(of_all):.2f} %",
            f"against entitlement without the correction by past use: {_worst(plain):.2f} %",
            f"waits for what is owned while anybody borrows anything: {sum(len(o.unfair_strictly) for o in seen)}",
            *(_note(outcome) for outcome in seen),
        ),
    )


def errors(outcome: Outcome, half_life: float, *, is_covered: bool, is_plain: bool = False) -> list[float]:
    """|decayed use - decayed entitlement| of each hour and team from the second half-life on, percent of the cluster.

    is_covered: only where demand has covered entitlement for a half-life; is_plain: entitlement without correction.
    """
    return [
        100 * abs(one.use - (one.plain if is_plain else one.entitled)) / outcome.capacity
        for one in outcome.samples
        if one.at >= half_life and (not is_covered or one.at - one.covered_since >= half_life)
    ]


def _worst(found: list[list[float]]) -> float:
    return max((value for part in found for value in part), default=0.0)


def _note(outcome: Outcome) -> str:
    made = ", ".join(f"{count} {reason}" for reason, count in sorted(outcome.evictions.items()))
    return (
        f"{outcome.ended} jobs ended, {outcome.rounds} rounds; preempted: {made or 'none'}, a job at most "
        f"{outcome.max_preempted} times in 24 h; {outcome.worn_starts} starts of jobs preempted three times"
    )
