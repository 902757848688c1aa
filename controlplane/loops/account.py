"""Add up what was used, and note how teams and services stand."""

from collections.abc import Sequence
from uuid import UUID

from django.conf import settings

from autoscaler.standings import tally
from controlplane.cluster.port import GpuUse, pod_name
from controlplane.domain.retention import SAMPLES
from controlplane.loops import rounds
from controlplane.loops.lease import Report
from controlplane.loops.wiring import Wiring
from controlplane.queries.reports import sla, standings
from controlplane.queries.tenancy import shares
from controlplane.security import sessions
from controlplane.services.accounts import logins
from controlplane.services.audit import retention
from controlplane.services.scheduling import clusters, risk
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.tenancy import servicedays, usage
from controlplane.services.training import diagnoses, experiments, lending, planning, slownodes
from controlplane.services.workloads import actions, checkpoints, idempotency, idle, samples

PRUNE_SECONDS = 3600.0  # cluster clock; performed actions and old answers are dropped so often
PLAN_WINDOWS = 5  # windows of a look: twelve have to pass until what was changed is measured
NOTE_SECONDS, STRETCHES = 600.0, 10  # days of services are noted so often, and so many parts of them in one round


def run_once(wiring: Wiring) -> Report:
    """One round of the account loop."""
    return rounds.run("account", wiring, _account)


def _account(wiring: Wiring, lease: HeldLease) -> int:
    to = clusters.seen().now  # not the cluster's clock: a pod may have ended since, and what is billed stays billed
    promises = usage.serving()
    services = wiring.metrics.services(promises)
    uses = samples.numbered(wiring.metrics.gpus())
    clusters.measure(uses)
    notebooks = idle.watched()
    asked = dict.fromkeys([*(str(notebook.uid) for notebook in notebooks), *samples.sharers()])
    pods = wiring.metrics.pods(list(asked))
    own = {pod_name(pod.workload, pod.attempt, pod.rank): pod.own_duty for pod in pods if pod.own_duty is not None}
    places = {pod_name(pod.workload, pod.attempt, pod.rank): pod.on_gpu for pod in pods if pod.on_gpu is not None}
    checkpoints.note(found=wiring.metrics.checkpoints(checkpoints.watched()), lease=lease)
    hours = {row.pk: row.used_hours for row in shares.budgets(to)}
    count = usage.account(to=to, lease=lease, uses=uses, services=services, budget_hours=hours, own=own, places=places)
    risk.note(standings=sla.standings(to, [UUID(uid) for uid in promises]), lease=lease)
    idle.park(at=to, notebooks=notebooks, uses=pods, lease=lease)
    _note_steps(wiring, to, uses, lease)
    if to - wiring.kept.get("days_noted_at", -NOTE_SECONDS) >= NOTE_SECONDS and not _note_days(to, lease):
        wiring.kept["days_noted_at"] = to
    if to - wiring.kept.get("pruned_at", 0.0) >= PRUNE_SECONDS:
        actions.prune()
        lending.prune(to)
        idempotency.prune()
        logins.prune()
        sessions.prune()
        wiring.kept["pruned_at"] = to
    return count


def _note_steps(wiring: Wiring, at: float, uses: Sequence[GpuUse], lease: HeldLease) -> None:
    """Sample what runs, and look at what slows the trainings that report their steps, each when it is due."""
    window = settings.TRAINING_WINDOW_SECONDS
    periods = {"sampled_at": samples.PERIOD, "diagnosed_at": window}
    due = [name for name, period in periods.items() if at - wiring.kept.get(name, -period) >= period]
    if not due:
        return
    seats = samples.seats()
    steps = wiring.metrics.training(samples.trainings(seats))  # once, where both are due
    if "sampled_at" in due:
        samples.note(at=at, found=seats, uses=uses, steps=steps)
    if "diagnosed_at" in due:
        told = [step.workload for step in steps if step.step_seconds]
        metrics = wiring.metrics
        found = diagnoses.watched(seats)
        silent = diagnoses.silent(found, told)
        every = [*told, *sorted(map(str, silent))]
        parts = (metrics.workers(told), metrics.pods(every), metrics.nodes()) if every else ()
        measured = diagnoses.Measured(steps, *parts)
        seen = diagnoses.note(at=at, trainings=found, measured=measured, lease=lease, silent=silent)
        slownodes.note(at=at, seen=seen, lease=lease)
        lending.note_starts(at=at, seen=seen, period=window, lease=lease)
        experiments.look(at=at, seen=seen, period=window, lease=lease)
        _plan(wiring, at, PLAN_WINDOWS * window, lease)
    wiring.kept.update(dict.fromkeys(due, at))


def _plan(wiring: Wiring, at: float, period: float, lease: HeldLease) -> None:
    """Divide the GPUs of elastic trainings, when that is due."""
    if at - wiring.kept.get("planned_at", -period) >= period:
        memories = wiring.kept.setdefault("plans", {})
        planning.look(at=at, memories=memories, lease=lease)
        wiring.kept["planned_at"] = at


def _note_days(at: float, lease: HeldLease) -> bool:
    """Note how services kept their objectives; tell whether there is more than one round should do."""
    due = standings.due(at, STRETCHES, kept_days=retention.days(SAMPLES))
    for one in due:
        span = one.since, one.until
        moments, windows = standings.past(one.workload, one.promise, *span, one.phase, may_sleep=one.may_sleep)
        servicedays.note(stretch=one, found=tally(moments, windows, *span), lease=lease)
    return len(due) == STRETCHES
