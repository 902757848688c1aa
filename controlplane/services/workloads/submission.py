"""A job file becomes a Queued workload."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.db import IntegrityError, transaction

from controlplane.jobspec.podsets import roles_values
from controlplane.jobspec.quantities import iso
from controlplane.jobspec.spec import Spec, SpecError, stored
from controlplane.models import Dependency, PriorityClass, Team, User, Workload, bulk, loading
from controlplane.models.statements import take_turns
from controlplane.runtime.wake import wake
from controlplane.security import limits
from controlplane.security.limits import Budget
from controlplane.services.audit import events
from controlplane.services.cells import routing
from controlplane.services.cells.standing import Wanted
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes, clock
from controlplane.services.workloads import admission, columns, dependencies, feasibility
from controlplane.services.workloads import resubmission as again
from scheduler.cells.route import cell_named
from scheduler.model.workload import ENDED, Phase

_SEQ_LOCK = 7_360_281  # any constant: the transaction that holds it numbers submissions
_PLAIN = tuple(f.attname for f in Workload._meta.concrete_fields)


@dataclass(frozen=True, slots=True)
class Submission:
    """One job file by one person at one moment of the cluster's clock."""

    spec: Spec
    user: User | None = None
    actor: str = ""
    at: float | None = None
    extra: Mapping[str, Any] | None = None
    uid: UUID | None = None  # drawn unless given; a preset's are given, so that each of its runs is the same
    again: UUID | None = None  # the ended workload that this one is instead of
    message: str = ""  # of its first event
    managed_by: str = ""  # the Kubernetes resource of the object that makes it, such as workloads.weft.dev


def submit(
    *, spec: Spec, user: User | None, actor: str = "", at: float | None = None, extra: Mapping[str, Any] | None = None
) -> Workload:
    """Queue a workload. Raises Refused; `extra` is kept in its spec, beside what the user wrote."""
    (workload,) = submit_all([Submission(spec, user, actor, at, extra)])
    return workload


def submit_many(
    *, specs: Sequence[Spec], user: User | None, actor: str = "", at: float | None = None
) -> list[Workload]:
    """Queue several workloads, all or none; `after` may name others of the same list, in any order."""
    return submit_all([Submission(spec, user, actor, at) for spec in specs])


@transaction.atomic
def submit_all(submissions: Sequence[Submission]) -> list[Workload]:
    """Queue what several people submitted, in this order, in one transaction."""
    if not submissions:
        return []
    now = clock.now() if any(s.at is None for s in submissions) else 0.0
    teams = _teams({s.spec.team for s in submissions})
    classes = {c.name: c for c in loading.load(PriorityClass)}
    _refuse_twins(submissions, teams, _actor(submissions[0]))
    _refuse_too_many(submissions, teams)
    among = feasibility.known()
    seq = _next_seq()
    workloads = []
    for offset, one in enumerate(submissions):
        admission.check(one.spec, teams[one.spec.team])
        feasibility.check_spec(one.spec, teams[one.spec.team], among)
        at = now if one.at is None else one.at
        if one.spec.deadline is not None and one.spec.deadline <= at:
            message = f"deadline is past: the cluster's clock is {iso(at)}. Set a later one."
            raise Refused(422, "DeadlinePast", "deadline", message)
        workloads.append(_workload(one, teams[one.spec.team], _class(one.spec, classes), seq + offset, at))
    for workload, cell in zip(workloads, routing.submitted(map(_wanted, submissions)), strict=True):
        workload.cell = cell
    links = _dependencies(submissions, workloads, teams)
    _insert(workloads)
    bulk.insert(Dependency, ("workload_id", "needs_id", "when"), links)
    _tell(submissions, workloads)
    changes.touch_these((w.pk, w.cell) for w in workloads)
    _submit_steps_again(workloads, _actor(submissions[0]))
    wake("schedule")
    return workloads


def _wanted(one: Submission) -> Wanted:
    """What its cell depends on."""
    spec = one.spec
    least, most = max(1, spec.workers.min), max(1, spec.first)
    cell = None if spec.cell is None else cell_named(spec.cell)
    return Wanted(spec.team, spec.resources, least, most, spec.roles, spec.topology.require, cell)


def _submit_steps_again(submitted: Sequence[Workload], actor: str) -> None:
    """What ended because one of these had not done what it waited for; a step that is refused by now stays ended."""
    steps = again.steps(submitted)
    if len(steps) > 1 and _submitted_again(steps, actor) is None:
        return
    for step in steps:  # one that is refused keeps no other from it
        refused = _submitted_again([step], actor)
        if refused is not None:
            message = f"It was not submitted again: {refused}"
            told: dict[str, Any] = {"team": step.team.name, "workload": step.pk, "name": step.name, "phase": step.phase}
            events.record(kind="NotSubmittedAgain", actor=actor, message=message, **told)


def _submitted_again(steps: Sequence[Workload], actor: str) -> Refused | SpecError | None:
    """Submit these again, all or none; why not, if so."""
    message = f"Submitted again by {actor}, with what it starts after."
    try:
        with transaction.atomic():
            specs = [(step, stored(step.spec)) for step in steps]
            submit_all([Submission(spec, w.created_by, actor, again=w.pk, message=message) for w, spec in specs])
    except (Refused, SpecError) as error:
        return error
    return None


def _actor(one: Submission) -> str:
    return one.actor or (one.user.get_username() if one.user else "system")


def _teams(names: set[str]) -> dict[str, Team]:
    teams = {team.name: team for team in loading.load(Team, {"name__among": names})}
    for name in sorted(names - teams.keys()):
        raise Refused(404, "UnknownTeam", "team", f"There is no team {name}. Name one of your teams.")
    return teams


def _class(spec: Spec, classes: Mapping[str, PriorityClass]) -> PriorityClass:
    if spec.priority_class:
        if spec.priority_class in classes:
            return classes[spec.priority_class]
        known = ", ".join(sorted(classes)) or "none"
        raise Refused(
            422,
            "UnknownPriorityClass",
            "priority_class",
            f"There is no priority class {spec.priority_class}. Use one of: {known}.",
        )
    found = next((c for c in classes.values() if c.is_default), None)
    if found is None:
        raise Refused(422, "NoDefaultPriorityClass", "priority_class", "No priority class is the default. Name one.")
    return found


def _refuse_twins(submissions: Sequence[Submission], teams: Mapping[str, Team], actor: str) -> None:
    """A name is free again once its workload has ended, or for a person if the platform submitted it again."""
    wanted: set[tuple[int, str]] = set()
    for one in submissions:
        key = (teams[one.spec.team].pk, one.spec.name)
        if key in wanted:
            _refuse_twin(one.spec.team, one.spec.name)
        wanted.add(key)
    here = [team.pk for team in teams.values()]
    for part in bulk.chunks(sorted({name for _, name in wanted})):
        live = {"name__among": part, "team_id__among": here, "phase__not_in": ENDED}
        found = bulk.select(Workload, ("uid", "team_id", "name"), live)
        twins = {uid: (team, name) for uid, team, name in found if (team, name) in wanted}
        left = [twins[uid] for uid in twins.keys() - again.give_way(twins, actor)] if twins else []
        for team, name in left:
            _refuse_twin(next(t.name for t in teams.values() if t.pk == team), name)


def _refuse_twin(team: str, name: str) -> None:
    message = f"Team {team} has a live workload named {name}. Stop it, or choose another name."
    raise Refused(409, "NameTaken", "name", message)


def _refuse_too_many(submissions: Sequence[Submission], teams: Mapping[str, Team]) -> None:
    """A team's queue has an end, so that one script cannot fill the database; the platform's own work is not asked."""
    more = Counter(one.spec.team for one in submissions if one.user is not None)
    anew = Counter(one.spec.team for one in submissions if one.again is None)
    budget = Budget("submissions", settings.RATE_LIMITS["submissions"])
    for name, count in more.items():
        wait = limits.of_process().take(budget, name, count) if anew[name] else 0
        if wait:
            message = f"Team {name} submits more than {budget.per_second:g} workloads a second. Try again in {wait} s."
            raise Refused(429, "TooManyRequests", "team", message)
        ((waiting,),) = bulk.count(Workload, (), {"team_id": teams[name].pk, "phase": Phase.QUEUED})
        if waiting + count > settings.MAX_QUEUED:
            message = (
                f"Team {name} has {waiting} workloads waiting, and {settings.MAX_QUEUED} may. "
                "Stop some, or submit more once others have started."
            )
            raise Refused(429, "QueueFull", "team", message)


def _next_seq() -> int:
    """The number of the next submission; until this transaction ends no other gets one."""
    take_turns(_SEQ_LOCK)
    last = bulk.select(Workload, ("seq",), order=("-seq",), limit=1)
    return int(last[0][0]) + 1 if last else 1


def _workload(one: Submission, team: Team, priority: PriorityClass, seq: int, at: float) -> Workload:
    spec = one.spec
    gang = spec.workers
    return Workload(
        uid=one.uid or uuid4(),
        seq=seq,
        team=team,
        name=spec.name,
        kind=str(spec.type),
        priority_class=priority,
        priority=priority.value,
        preemptible=priority.preemptible,
        created_by=one.user,
        managed_by=one.managed_by,
        spec={**spec.document(), **(one.extra or {})},
        workers=spec.first,
        workers_min=gang.min,
        workers_max=gang.max,
        awake=gang.count if spec.standby else None,
        standby=spec.standby,
        spread=spec.spread,
        asynchronous=spec.asynchronous,
        batch=spec.batch.size if spec.batch else None,
        offloads=spec.offloads or spec.on_demand,
        roles=roles_values(spec.roles),
        checkpoint_interval=spec.checkpoint.interval,
        grace_seconds=spec.checkpoint.grace,
        deadline=spec.deadline,
        retries=spec.retries,
        phase=Phase.QUEUED.value,
        submitted_at=at,
        queued_at=at,
        **columns.of_ask(spec),
        **columns.of_times(spec),
    )


def _dependencies(
    submissions: Sequence[Submission], workloads: Sequence[Workload], teams: Mapping[str, Team]
) -> list[tuple[UUID, UUID, str]]:
    """Links of `after`, and into each workload what is not met yet."""
    ours = {(w.team_id, w.name): w for w in workloads}
    links: list[tuple[UUID, UUID, str]] = []
    graph: dict[str, tuple[str, ...]] = {}
    for one, workload in zip(submissions, workloads, strict=True):
        if not one.spec.after:
            continue
        here = {n.name: ours[workload.team_id, n.name] for n in one.spec.after if (workload.team_id, n.name) in ours}
        elsewhere = [needed for needed in one.spec.after if needed.name not in here]
        known = dependencies.resolve(team=teams[one.spec.team], needed=elsewhere) if elsewhere else {}
        graph[f"{workload.team_id}/{workload.name}"] = tuple(f"{workload.team_id}/{name}" for name in here)
        for name, when in one.spec.after:
            links.append((workload.pk, here[name].pk if name in here else known[name][0], when))
        workload.unmet = [name for name, _ in one.spec.after if name in here or not known[name][1]]
    _refuse_cycle(graph)
    return links


def _refuse_cycle(graph: Mapping[str, tuple[str, ...]]) -> None:
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        stack = [(start, iter(graph.get(start, ())))]
        path.append(start)
        while stack:
            name, rest = stack[-1]
            following = next((n for n in rest if n not in done), None)
            if following is None:
                done.add(name)
                path.pop()
                stack.pop()
            elif following in path:
                circle = [n.partition("/")[2] for n in (*path[path.index(following) :], following)]
                message = f"after has a dependency cycle: {' -> '.join(circle)}. Remove one of them."
                raise Refused(422, "DependencyCycle", "after", message)
            else:
                path.append(following)
                stack.append((following, iter(graph.get(following, ()))))


def _insert(workloads: Sequence[Workload]) -> None:
    try:
        bulk.insert(Workload, _PLAIN, [[getattr(w, name) for name in _PLAIN] for w in workloads])
    except IntegrityError as error:
        if "one_live_workload_per_name" not in str(error) and "name" not in str(error):
            raise
        raise Refused(
            409, "NameTaken", "name", "A live workload with this name was submitted meanwhile. Choose another name."
        ) from error


def _tell(submissions: Sequence[Submission], workloads: Sequence[Workload]) -> None:
    events.write(
        [
            events.Entry(
                cluster_at=w.submitted_at,
                actor=_actor(one),
                kind="Submitted",
                team=one.spec.team,
                workload=w.pk,
                name=w.name,
                phase=w.phase,
                message=one.message,
                data={"again": str(one.again)} if one.again else {},
            )
            for one, w in zip(submissions, workloads, strict=True)
        ]
    )
