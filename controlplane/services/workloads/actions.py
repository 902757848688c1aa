"""The outbox: commands for the cluster, written with the decision, performed after it, safe to repeat."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from autoscaler.latency import ANSWER
from controlplane.cluster.port import Address, PodSpec, Split
from controlplane.jobspec import members
from controlplane.jobspec.podsets import role_ask, share_of_row
from controlplane.lifecycle import resizing as lifecycle
from controlplane.lifecycle import weights
from controlplane.lifecycle.attempts import start_refused
from controlplane.lifecycle.ends import backoff_seconds
from controlplane.models import Action, Placement, PlacementState, Workload, bulk
from controlplane.security import notebookkeys
from controlplane.services.scheduling import clusters, revising
from controlplane.services.scheduling.leases import HeldLease
from controlplane.services.tenancy import sharing
from controlplane.services.workloads import resizing
from controlplane.services.workloads.transitions import Batch
from gpushare.gpu import WHOLE
from scheduler.model.workload import ACTIVE, Kind, Weights

ACTOR = "loop:actuate"
MAX_TRIES = 5  # of a start that the cluster answers with a refusal; one it does not answer is tried for ever
_PLACE = ("workload_id", "attempt", "rank", "node", "gpus", "revision", "asleep_at", "lender")
_TRIES = {"start": MAX_TRIES, "resize": MAX_TRIES, "offload": 2}  # a gang waits for weights that are to move
KEEP_DONE = 20_000  # performed actions that are kept for inspection


@dataclass(frozen=True, slots=True)
class Command:
    """One open action with all that performing it takes. A stale one has nothing left to do."""

    id: int
    verb: str
    workload: str
    attempt: int
    ranks: tuple[int, ...]
    tries: int
    grace_seconds: float = 0.0
    pods: tuple[PodSpec, ...] = ()
    node: str = ""
    on: bool = False
    cpu_milli: int = 0
    memory: int = 0
    weights: int = 0  # MiB of a replica's, where they are to move
    milli: int = 0  # of a limit
    split: Split | None = None
    address: Address | None = None
    least: int = 0  # replicas of a service, of which evictions are to leave all but one
    is_stale: bool = False


def due(*, at: float, limit: int = 500) -> tuple[Command, ...]:
    """Open actions to perform now, oldest first."""
    columns = ("id", "verb", "workload", "attempt", "payload", "tries")
    open_now = {"done_at__isnull": True, "not_before__lte": at}
    commands = [
        Command(
            pk,
            verb,
            str(workload),
            attempt,
            tuple(payload.get("ranks", ())),
            tries,
            float(payload.get("grace", 0.0)),
            node=payload.get("node", ""),
            on=payload.get("on", False),
        )
        for pk, verb, workload, attempt, payload, tries in bulk.select(
            Action, columns, open_now, order=("id",), limit=limit
        )
    ]
    if starts := {UUID(c.workload) for c in commands if c.verb == "start"}:
        commands = list(_with_pods(commands, starts))
    for verb, (read, told) in _TOLD_NOW.items():
        commands = _as_wanted_now(commands, verb, read, told)
    return tuple(commands)


def _as_wanted_now(
    commands: list[Command], verb: str, columns: Sequence[str], told: Callable[..., Command]
) -> list[Command]:
    """Commands of a verb say what is wanted now, whatever was wanted when they were written: one that is performed late
    undoes none that came after it. told: makes that of a command and the columns of its workload."""
    uids = {UUID(command.workload) for command in commands if command.verb == verb}
    if not uids:
        return commands
    rows = {str(uid): rest for uid, *rest in bulk.select(Workload, ("uid", *columns), {"uid__among": uids})}
    return [told(one, *rows[one.workload]) if one.verb == verb else one for one in commands]


def _is_of_another(command: Command, phase: str, attempt: int) -> bool:
    return attempt != command.attempt or phase not in ACTIVE


def _split(
    command: Command, name: str, team: str, phase: str, attempt: int, revision: int, rollout: Any, spec: Any
) -> Command:
    told = (rollout or {}).get("split") or [attempt, revision, None]
    both = {revision, rollout["from"]} if rollout else {revision}
    before = next((number for number in both if number != told[1]), told[1])
    asked = spec.get("normalised") or {}
    promised = asked.get("objective") or {}
    split = Split(
        command.workload, name, team, told[1], before, told[2], promised.get("p95_seconds"),
        bool(asked.get("gateway")), promised.get("of", ANSWER),
    )  # fmt: skip
    return replace(command, split=split, is_stale=_is_of_another(command, phase, attempt))


def _address(command: Command, name: str, team: str, phase: str, workers: int) -> Command:
    """It stays for a service that is asleep now, and goes for one that is not to have replicas now."""
    is_asleep = phase in ACTIVE and not workers
    is_stale = not is_asleep if command.on else phase in ACTIVE
    return replace(command, address=Address(command.workload, name, team), is_stale=is_stale)


def _guard(command: Command, name: str, team: str, phase: str, attempt: int, spec: Any) -> Command:
    address, least = Address(command.workload, name, team), int(spec["normalised"]["workers"]["min"])
    return replace(command, address=address, least=least, is_stale=_is_of_another(command, phase, attempt))


def _size(command: Command, phase: str, attempt: int, cpu_milli: int, memory: int, resize: Any) -> Command:
    cpu_milli, memory = resize["to"] if resize else (cpu_milli, memory)
    return replace(command, cpu_milli=cpu_milli, memory=memory, is_stale=_is_of_another(command, phase, attempt))


def _limit(command: Command, phase: str, attempt: int, milli: int) -> Command:
    return replace(command, milli=milli, is_stale=_is_of_another(command, phase, attempt))


def _weights(command: Command, phase: str, attempt: int, memory: int, resize: Any, weights: int) -> Command:
    memory = resize["to"][1] if resize else memory
    return replace(command, memory=memory, weights=weights, is_stale=_is_of_another(command, phase, attempt))


_TOLD_NOW: Mapping[str, tuple[tuple[str, ...], Callable[..., Command]]] = {
    "resize": (("phase", "attempt", "cpu_milli", "memory", "resize"), _size),
    "limit": (("phase", "attempt", "share_limit"), _limit),
    "offload": (("phase", "attempt", "memory", "resize", "gpu_memory"), _weights),
    "split": (("name", "team__name", "phase", "attempt", "revision", "rollout", "spec"), _split),
    "address": (("name", "team__name", "phase", "workers"), _address),
    "guard": (("name", "team__name", "phase", "attempt", "spec"), _guard),
}


def _with_pods(commands: Sequence[Command], starts: set[UUID]) -> Iterable[Command]:
    """Starts get the pods that are still wanted: bound places of the current attempt."""
    pods: dict[tuple[str, int], dict[int, PodSpec]] = {}
    for part in bulk.chunks(starts):
        for spec in _pods(part):
            pods.setdefault((spec.workload, spec.attempt), {})[spec.rank] = spec
    for command in commands:
        if command.verb != "start":
            yield command
            continue
        wanted = pods.get((command.workload, command.attempt), {})
        mine = tuple(replace(wanted[r], size=len(command.ranks)) for r in command.ranks if r in wanted)
        yield replace(command, pods=mine, is_stale=not mine)


def _pods(uids: list[UUID]) -> Iterable[PodSpec]:
    columns = (
        "uid", "phase", "attempt", "share_guarantee", "gpu_memory", "cpu_milli", "memory", "resize", "roles", "spec",
        "team__name", "revision", "share_limit", "batch",
    )  # fmt: skip
    asks = {row[0]: row[1:] for row in bulk.select(Workload, columns, {"uid__among": uids})}
    bound = {"workload_id__among": uids, "state": PlacementState.BOUND}
    places = bulk.select(Placement, _PLACE, bound)
    told = sharing.by_node({node for _, _, _, node, *_ in places})
    for uid, attempt, rank, node, gpus, revision, asleep_at, lender in places:
        phase, current, guarantee, gpu_memory, cpu_milli, memory, resize, roles, spec, team, wanted, limit, batch = (
            asks[uid]
        )
        if current != attempt or phase not in ACTIVE:
            continue
        if revision != wanted:  # it was placed before the service was changed: its pod may exist already
            spec = {**spec, **revising.template_of(uid, revision)}
        ask = role_ask(roles, rank) if roles else None
        spec = dict(members.counted(spec, roles)) if roles else notebookkeys.with_token(spec, uid)
        if ask is not None:
            guarantee, gpu_memory = (ask.share.guarantee, ask.share.memory) if ask.share else (0, 0)
            limit = ask.share.limit if ask.share else 0
            cpu_milli, memory = ask.cpu_milli, ask.memory
        elif resize:
            cpu_milli, memory = resize["to"]
        share = share_of_row(guarantee, limit or guarantee, gpu_memory, on_demand=spec.get("on_demand") is True)
        yield PodSpec(
            workload=str(uid),
            attempt=attempt,
            rank=rank,
            size=1,
            node=node,
            gpus=tuple(gpus),
            milli=0 if lender else guarantee or WHOLE,
            gpu_memory=gpu_memory if guarantee or lender else 0,
            cpu_milli=cpu_milli,
            memory=memory,
            namespace=team,
            spec=spec,
            revision=revision if spec.get("type") == Kind.INFERENCE else 0,
            is_asleep=asleep_at is not None,
            is_lent=bool(lender),
            limit=0 if lender else limit,
            batch=batch or 0,
            **({} if lender or share is None else told(node, share)),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one command; an empty error means done. is_refusal: the cluster answered, with a no."""

    command: Command
    error: str = ""
    is_refusal: bool = False


def settle(outcomes: Sequence[Outcome], *, at: float, lease: HeldLease) -> None:
    """Note what was performed and what has to be tried again, in one transaction fenced by the lease."""
    if not outcomes:
        return
    done = [outcome.command.id for outcome in outcomes if not outcome.error]
    failed = [outcome for outcome in outcomes if outcome.error]
    with transaction.atomic():
        lease.check()
        bulk.update(Action, ("done_at", "error"), ("id",), [(at, "", number) for number in done])
        if failed:
            _note_failures(failed, at)
        if resized := [o for o in outcomes if o.command.verb == "resize" and not o.error and not o.command.is_stale]:
            _note_resizes(resized, at)
        if any(o.command.is_stale and o.command.verb == "start" for o in outcomes):
            clusters.forget_cursor()  # only a full observation tells that such pods never came to be


def prune(*, keep: int = KEEP_DONE) -> int:
    """Drop performed actions but the newest ones; tell how many."""
    newest = Action.objects.order_by("-id").values_list("id", flat=True).first()
    if newest is None:
        return 0
    deleted, _ = Action.objects.filter(id__lte=newest - keep, done_at__isnull=False).delete()
    return deleted


def _note_failures(failed: Sequence[Outcome], at: float) -> None:
    rows, given_up = [], []
    for outcome in failed:
        tries = outcome.command.tries + 1
        is_over = outcome.is_refusal and tries >= _TRIES.get(outcome.command.verb, math.inf)
        if is_over:
            given_up.append(outcome)
        rows.append(
            (tries, at + backoff_seconds(tries), outcome.error[:400], at if is_over else None, outcome.command.id)
        )
    bulk.update(Action, ("tries", "not_before", "error", "done_at"), ("id",), rows)
    if given_up:
        _give_up(given_up, at)


def _give_up(given_up: Sequence[Outcome], at: float) -> None:
    """What the cluster will not start goes back to the queue, and waits longer each time; a resize is put back.

    Weights that a server does not move are taken to stay where they are.
    """
    batch = Batch(at, ACTOR)
    batch.lock(UUID(outcome.command.workload) for outcome in given_up)
    for outcome in given_up:
        row = batch.rows.get(outcome.command.workload)
        if row is None or row.attempt != outcome.command.attempt:
            continue
        if outcome.command.verb == "start":
            start_refused(batch, row, outcome.command.ranks, outcome.error)
        elif outcome.command.verb == "offload":
            to = Weights.TO_HOST if outcome.command.on else Weights.TO_DEVICE
            weights.refused(batch, row, outcome.command.ranks, to, outcome.error)
        else:
            resizing.give_up(batch, row, "ResizeRefused", f"The cluster does not resize it: {outcome.error}.")
    batch.write()
    clusters.forget_cursor()


def _note_resizes(outcomes: Sequence[Outcome], at: float) -> None:
    """What the nodes answered may have been seen before their commands were noted as done."""
    batch = Batch(at, ACTOR)
    batch.lock(UUID(outcome.command.workload) for outcome in outcomes)
    for outcome in outcomes:
        row, command = batch.rows.get(outcome.command.workload), outcome.command
        if row is not None and row.attempt == command.attempt:
            lifecycle.performed(batch, row, (command.cpu_milli, command.memory))
    resizing.conclude(batch, batch.rows.values())
    batch.write()
