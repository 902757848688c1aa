"""What a what-if replays: a cluster as it was at one moment, and all work that was there or came until another.

Free of the database: queries/scheduling/history.py makes one of stored rounds, `of_preset` of a trace or preset.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from controlplane.cluster import work as works
from controlplane.jobspec.spec import Spec, SpecError, parse
from controlplane.simulator.replay.serving import Service
from controlplane.simulator.worlds.presets import PRIORITY_CLASSES, Preset
from controlplane.simulator.worlds.profiles import PROFILES
from scheduler.model.demand import NO_DEMAND, Demand
from scheduler.model.snapshot import Node
from scheduler.model.team import Budget, Quota, Team, Use
from scheduler.model.workload import Assignment, Phase, Workload

PRIORITIES = {c.name: c for c in PRIORITY_CLASSES}
DEFAULT_PRIORITY = next(c for c in PRIORITY_CLASSES if c.is_default)


@dataclass(frozen=True, slots=True)
class Job:
    """One workload of an episode.

    `workload` is as it comes: Queued, or, at the start, with the places it holds. `at` is when it comes, cluster clock;
    `seconds` how long it still runs with all its workers (None: to the end of the episode and beyond). `resizes` are
    (when, how many workers are wanted) of a service, `limits` (when, milli-GPU) those of its replicas; `withdrawn` is
    when its user took it back while it waited. `service` is what is known of a service's requests.
    """

    workload: Workload
    at: float
    seconds: float | None
    resizes: tuple[tuple[float, int], ...] = ()
    withdrawn: float | None = None
    service: Service | None = None
    limits: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Episode:
    """A cluster, its teams and quotas at `start`, and the work up to `end`; jobs are in order of `at`."""

    name: str
    start: float
    end: float
    nodes: tuple[Node, ...]
    teams: tuple[Team, ...]
    quotas: tuple[Quota, ...]
    jobs: tuple[Job, ...]
    use: tuple[Use, ...] = ()  # decayed, at the start
    budgets: tuple[Budget, ...] = ()  # used up at the start
    demand: Demand = NO_DEMAND  # as it was at the start; unknown: counted as the work comes

    @property
    def gpus(self) -> int:
        """Devices of all nodes."""
        return sum(node.gpus for node in self.nodes)

    def without_lost_places(self) -> "Episode":
        """The same, where what ran on nodes that are not there waits at the start instead."""
        sizes = {node.name: node.gpus for node in self.nodes}
        return replace(self, jobs=tuple(replace(j, workload=_displaced(j.workload, sizes)) for j in self.jobs))


def of_preset(preset: Preset, hours: float, max_jobs: int) -> Episode:
    """The first hours of a preset from an empty cluster, at most so many jobs.

    Job files that the product would refuse, or whose team there is not, are left out.
    """
    end = preset.start + hours * 3600.0
    teams = {team.name for team in preset.teams}
    jobs: list[Job] = []
    for at, document in islice(_documents(preset, end), max_jobs):
        try:
            spec = parse(document, allow_simulated=True)
        except SpecError:
            continue
        if spec.team in teams:
            jobs.append(_job(spec, at, len(jobs) + 1, preset.seed))
    if len(jobs) == max_jobs:
        end = min(end, max((job.at for job in jobs), default=end))
    return Episode(preset.name, preset.start, end, preset.nodes, preset.teams, preset.quotas, tuple(jobs))


def _documents(preset: Preset, end: float) -> Iterator[tuple[float, Mapping[str, object]]]:
    for arrival in preset.arrivals:
        if arrival.at >= end:
            return
        for document in arrival.documents:
            yield arrival.at, document


def _job(spec: Spec, at: float, seq: int, seed: int) -> Job:
    uid = f"{spec.team}/{spec.name}#{seq}"
    priority = PRIORITIES.get(spec.priority_class, DEFAULT_PRIORITY)
    work = works.read_work(uid, spec.document(), PROFILES, seed)
    workload = Workload(
        id=uid,
        name=spec.name,
        team=spec.team,
        kind=spec.type,
        ask=spec.resources,
        gang=spec.workers,
        topology=spec.topology,
        spread=spec.spread,
        asynchronous=spec.asynchronous,
        priority=priority.value,
        preemptible=priority.preemptible,
        seq=seq,
        submitted_at=at,
        queued_at=at,
        expected_seconds=spec.expected_duration,
        checkpoint_interval=spec.checkpoint.interval,
        grace_seconds=spec.checkpoint.grace,
    )
    seconds = [s for s in (work.seconds, spec.max_duration) if s is not None]
    share = spec.resources.share
    raised = (share.limit, spec.max_limit) if share and spec.max_limit > share.limit else None
    guarantee = share.guarantee if share else 0
    service = Service.of(work, is_scaled=True, guarantee=guarantee, limits=raised)
    return Job(workload, at, min(seconds, default=None), service=service)


def _displaced(workload: Workload, sizes: Mapping[str, int]) -> Workload:
    def is_there(place: Assignment) -> bool:
        return place.node in sizes and all(index < sizes[place.node] for index in place.gpus)

    if all(is_there(place) for place in workload.placement):
        return workload
    return replace(workload, phase=Phase.QUEUED, placement=(), after=(), started_at=None)
