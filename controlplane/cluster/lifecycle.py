"""How pods live in the simulated cluster: every change of state, by command or by an event that came due.

Pending -> (start delay) -> Running -> Succeeded | Failed, or Gone when stopped or when the node is lost. Training is
synchronous: an attempt makes progress only while all its workers run, and when one ends early the others fail too.
Nothing happens at the very moment of a command: the soonest event is a second later.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.cluster import draws, images, physics, requests, speed
from controlplane.cluster.entities import Attempt, Machine, Pod, Service, Volume
from controlplane.cluster.leaving import leaves_at
from controlplane.cluster.port import PodPhase, PodSpec
from controlplane.cluster.sizing import Sizing
from controlplane.cluster.work import Work
from controlplane.jobspec.members import role_members
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind

PEER_EXIT, LOST_EXIT, KILLED_EXIT = 1, 1, 137


class Lifecycle(Sizing):
    """The only one that changes the world."""

    # --- time --------------------------------------------------------------------------------

    def advance(self, to: float) -> None:
        """Let happen all that comes due up to this time, in its order."""
        world, since = self.world, self.world.now
        while (row := world.pop(to)) is not None:
            due = getattr(row, "due", None)
            world.now = max(world.now, due or world.now)
            match row:
                case Machine():
                    self._fail_or_repair(row)
                case Pod():
                    self._pod_due(row)
                case Attempt():
                    self._attempt_due(row)
        world.now = max(world.now, to)
        requests.keep_points(world, since)
        world.forget()

    def _fail_or_repair(self, machine: Machine) -> None:
        if machine.node.ready:
            self.lose_node(machine)
            machine.failures += 1
            machine.due = self.world.now + self.world.conditions.node_repair_seconds
        else:
            self.restore_node(machine)
            machine.due = self.world.fails_at(machine)
        self.world.keep(machine)
        self.world.schedule(machine)

    def _pod_due(self, pod: Pod) -> None:
        pod.due = None
        attempt = self.world.attempts[pod.group]
        if pod.stopped_at is not None:
            self._save(attempt)
            self._end(pod, PodPhase.GONE, None, "Stopped")
            self._go_on(attempt)
        elif pod.phase == PodPhase.PENDING:
            self._run(pod, attempt)
        elif pod.goes_to:
            self.moved(pod)
        else:
            self._end(pod, PodPhase.SUCCEEDED, 0, "")

    def _attempt_due(self, attempt: Attempt) -> None:
        attempt.due = None
        self._settle(attempt)
        attempt.speed = 0.0
        self.world.keep(attempt)
        if attempt.fail_rank is not None:
            code, reason = attempt.fails_with
            self._end(attempt.pods[attempt.fail_rank], PodPhase.FAILED, code, reason)
            return
        attempt.done = attempt.safe = 1.0
        attempt.safe_at = self.world.now
        if self.world.volumes.pop(attempt.workload, None) is not None:
            self.world.dirty[Volume.TABLE, attempt.workload] = None
        for rank in sorted(attempt.pods):
            if not attempt.pods[rank].is_over:  # those that an elastic gang gave up ended long ago
                self._end(attempt.pods[rank], PodPhase.SUCCEEDED, 0, "")

    # --- commands ----------------------------------------------------------------------------

    def create(self, spec: PodSpec) -> None:
        """Create a pod on its node; one that exists already is left alone."""
        world = self.world
        if spec.name in world.pods:
            return
        pod = Pod.create(spec, world.now)
        pod.slowness = images.slowness(spec.spec)
        attempt, work = self._attempt_of(spec)
        attempt.pods[pod.rank] = world.pods[pod.name] = pod
        world.keep(attempt)
        machine = world.machines.get(spec.node)
        if machine is None or machine.is_removed or not machine.node.ready:
            self._refuse(pod, PodPhase.GONE, None, "NodeLost")
        elif lack := world.lacks(spec):
            world.overcommits += 1
            self._refuse(pod, PodPhase.FAILED, LOST_EXIT, lack)
        else:
            if not images.is_broken(spec.spec):
                pod.due = world.now + physics.start_seconds(work.kind, world.conditions.seed, pod.name)
            world.occupy(pod)
            world.schedule(pod)
            world.change(pod)

    def stop(self, workload: str, attempt: int, ranks: Sequence[int], grace: float) -> None:
        """Tell pods to end. Training writes a checkpoint first, and is killed when its grace ends before that."""
        group = self.world.attempts.get((workload, attempt))
        leaving = self.world.there(workload, attempt, sorted(set(ranks)))
        if group is None or not leaving:
            return
        now = self.world.now
        if group.speed > 0:
            self._halt(group)
            group.saving_until = now + (group.work.checkpoint_seconds if group.work else 0.0)
        for pod in leaving:
            pod.stopped_at = now if pod.stopped_at is None else pod.stopped_at
            pod.deadline = min(now + max(0.0, grace), math.inf if pod.deadline is None else pod.deadline)
            until = leaves_at(group, pod, pod.stopped_at, self.world.conditions.seed)
            pod.due = max(now + 1.0, float(math.ceil(min(until, pod.deadline))))
            self.world.schedule(pod)
            self.world.keep(pod)
        if _is_elastic(group) and group.members:
            group.size = min(group.size, len(group.members))
            self.world.keep(group)
        for pod in leaving:
            self._retime_neighbours(pod)
        self._note_capacity(group)

    def split(self, workload: str, revision: int, percent: int | None) -> None:
        """Have a service's requests split between a revision and the others, or no longer."""
        service = self.world.services.get(workload)
        if service is not None:
            service.split = None if percent is None else [revision, percent]
            self._note_capacity(self.world.attempts[workload, service.attempt])

    def alter(self, pod: Pod, **now: bool | int) -> None:
        """Change whether requests come to a replica (is_asleep; what it has begun it ends), or its limit."""
        before = replace(pod)
        for name, value in now.items():
            setattr(pod, name, value)
        if pod != before:
            self.world.keep(pod)
            self._note_capacity(self.world.attempts[pod.group])
            self._retime_others(pod)

    def lose_node(self, machine: Machine) -> None:
        """The node stops answering; its pods are gone."""
        if not machine.node.ready:
            return
        self.world.alter(machine, ready=False)
        for pod in sorted(self.world.on_node.get(machine.key, {}).values(), key=lambda p: p.name):
            if not pod.is_over:
                self.world.attempts[pod.group].saving_until = None
                self._end(pod, PodPhase.GONE, None, "NodeLost")

    def restore_node(self, machine: Machine) -> None:
        """The node is back, empty and with all its devices."""
        self.world.alter(machine, ready=True, lost=())

    def lose_gpu(self, machine: Machine, index: int) -> None:
        """A device breaks; the pods on it fail."""
        if index in machine.node.lost:
            return
        self.world.alter(machine, lost=tuple(sorted((*machine.node.lost, index))))
        for pod in sorted(self.world.occupants.get((machine.key, index), ()), key=lambda p: p.name):
            if not pod.is_over:
                self._end(pod, PodPhase.FAILED, LOST_EXIT, "GpuLost")

    # --- pods --------------------------------------------------------------------------------

    def _attempt_of(self, spec: PodSpec) -> tuple[Attempt, Work]:
        key = (spec.workload, spec.attempt)
        attempt = self.world.attempts.get(key)
        if attempt is None:
            work = self.world.work_of(spec.workload, spec.spec)
            cores = spec.cpu_milli / 1000 / max(1, len(spec.gpus))
            asked = spec.spec.get("normalised")
            if isinstance(asked, Mapping) and spec.rank < role_members(spec.spec):  # it is made for a role member
                cores = asked["cpu_milli"] / 1000 / max(1, asked["gpus"] or bool(asked["gpu_share"]))
            attempt = Attempt(
                spec.workload, spec.attempt, spec.size, spec.spec, cores=cores, work=work, batch=spec.batch
            )
            volume = self.world.volumes.get(spec.workload)
            if volume is not None:
                attempt.done, attempt.safe, attempt.safe_at = volume.safe, volume.safe, volume.safe_at
            self.world.attempts[key] = attempt
        assert attempt.work is not None  # noqa: S101 - set here and where rows are read
        return attempt, attempt.work

    def _refuse(self, pod: Pod, phase: PodPhase, exit_code: int | None, reason: str) -> None:
        pod.phase, pod.exit_code, pod.reason, pod.ended_at = phase, exit_code, reason, self.world.now
        self.world.ended[pod.name] = pod
        self.world.change(pod)
        self._fail_peers(self.world.attempts[pod.group])

    def _run(self, pod: Pod, attempt: Attempt) -> None:
        pod.phase, pod.started_at = PodPhase.RUNNING, self.world.now
        self.world.change(pod)
        work = attempt.work
        if work is not None and work.kind == Kind.NOTEBOOK and work.seconds is not None:
            pod.due = self.world.now + max(1.0, float(math.ceil(work.seconds)))
            self.world.schedule(pod)
        self._retime_neighbours(pod)
        self._note_capacity(attempt)
        if attempt.speed > 0:  # an elastic gang has grown
            attempt.size = max(attempt.size, sum(p.phase == PodPhase.RUNNING for p in attempt.members))
            self._retime(attempt)
        else:
            self._go_on(attempt)

    def _go_on(self, attempt: Attempt) -> None:
        """A training works once as many of its workers run as it needs, and none that leaves still saves."""
        work, running = attempt.work, [p for p in attempt.members if p.phase == PodPhase.RUNNING]
        is_saving = any(p.stopped_at is not None and not p.is_over for p in attempt.pods.values())
        if work is None or work.kind != Kind.TRAINING or is_saving or attempt.speed > 0:
            return
        if running and len(running) >= attempt.size:
            self._begin(attempt, work)

    def _end(self, pod: Pod, phase: PodPhase, exit_code: int | None, reason: str) -> None:
        pod.phase, pod.exit_code, pod.reason = phase, exit_code, reason
        pod.ended_at, pod.due = self.world.now, None
        self.world.vacate(pod)
        self.resize_waiting(pod.node)
        self.world.ended[pod.name] = pod
        self.world.change(pod)
        self._retime_neighbours(pod)
        attempt = self.world.attempts[pod.group]
        self._note_capacity(attempt)
        is_given_up = pod.stopped_at is not None and phase == PodPhase.GONE and reason == "Stopped"
        if phase != PodPhase.SUCCEEDED and not (is_given_up and _is_elastic(attempt)):
            self._fail_peers(attempt)

    def _fail_peers(self, attempt: Attempt) -> None:
        """Training cannot go on without one of its workers: the others fail as well, unless they are leaving."""
        if attempt.work is None or attempt.work.kind != Kind.TRAINING:
            return
        if attempt.speed > 0:
            self._halt(attempt)
        for rank in sorted(attempt.pods):
            pod = attempt.pods[rank]
            if not pod.is_over and pod.stopped_at is None:
                self._end(pod, PodPhase.FAILED, PEER_EXIT, "PeerFailed")

    # --- progress ----------------------------------------------------------------------------

    def _begin(self, attempt: Attempt, work: Work) -> None:
        """All workers run: the work goes on from the last checkpoint."""
        attempt.began_at = attempt.since = self.world.now
        self._draw_failure(attempt, work)
        self._set_speed(attempt, work)

    def _draw_failure(self, attempt: Attempt, work: Work) -> None:
        """Decide whether and where this attempt will fail: by its own fault, or by bad luck of one worker."""
        attempt.fail_rank, attempt.fail_at = None, math.inf
        own = work.fail_attempts is None or attempt.attempt <= work.fail_attempts
        if work.fail_at is not None and own:
            attempt.fail_rank, attempt.fail_at = attempt.members[0].rank, float(work.fail_at)
            attempt.fails_with = (work.exit_code, work.reason)
        rate, seed = work.training.failure_rate, self.world.conditions.seed
        members = attempt.members if rate > 0 and work.has_luck else []
        for rank, name in [(pod.rank, pod.name) for pod in members]:
            # The rate is of attempts, so that large gangs do not fail more often than the profile says.
            if draws.uniform(seed, "luck", name) * len(members) < rate:
                at = attempt.done + draws.uniform(seed, "when", name) * (1.0 - attempt.done)
                if at < attempt.fail_at:
                    attempt.fail_rank, attempt.fail_at = rank, at
                    attempt.fails_with = (KILLED_EXIT, "OOMKilled")
        if work.most_batch is not None and attempt.batch > work.most_batch:  # no device holds its part of a step
            attempt.fail_rank, attempt.fail_at = attempt.members[0].rank, attempt.done
            attempt.fails_with = (work.exit_code, "Error")

    def _set_speed(self, attempt: Attempt, work: Work) -> None:
        attempt.speed = speed.ratio_per_second(self.world, attempt, work)
        attempt.segments.append((attempt.since, attempt.done, attempt.speed))
        fails = attempt.fail_rank is not None and attempt.fail_at <= 1.0
        if not fails:
            attempt.fail_rank = None
        goal = attempt.fail_at if fails else 1.0
        seconds = max(0.0, goal - attempt.done) / attempt.speed
        # Rounded before: 1 / 3 of a second times three must not take four seconds.
        attempt.due = self.world.now + max(1.0, float(math.ceil(round(seconds, 6))))
        self.world.schedule(attempt)
        self.world.keep(attempt)

    def _settle(self, attempt: Attempt) -> None:
        """Note what is done and what is safe by now."""
        now = self.world.now
        safe, safe_at = attempt.checkpoint_at(now)
        if safe_at is not None and safe_at != attempt.safe_at:
            self._put_on_volume(attempt, safe, safe_at)
        attempt.done, attempt.since = attempt.done_at(now), now

    def _halt(self, attempt: Attempt) -> None:
        """Progress ends here."""
        self._settle(attempt)
        attempt.speed, attempt.due = 0.0, None
        attempt.segments.append((attempt.since, attempt.done, 0.0))
        self.world.keep(attempt)

    def _save(self, attempt: Attempt) -> None:
        """The checkpoint of a stopped training is written, if there was time for it and all workers lived."""
        if attempt.saving_until is not None and self.world.now >= attempt.saving_until:
            self._put_on_volume(attempt, attempt.done, self.world.now)
        if attempt.saving_until is not None:
            attempt.saving_until = None
            self.world.keep(attempt)

    def _put_on_volume(self, attempt: Attempt, safe: float, at: float) -> None:
        attempt.safe, attempt.safe_at = safe, at
        volume = self.world.volumes[attempt.workload] = Volume(attempt.workload, safe, at)
        self.world.keep(volume)
        self.world.keep(attempt)

    # --- neighbours --------------------------------------------------------------------------

    def _retime_neighbours(self, pod: Pod) -> None:
        """Pods that share a device with this one run faster or slower from now on."""
        if pod.milli < WHOLE:
            self._retime_others(pod)

    def _retime_others(self, pod: Pod) -> None:
        groups = {p.group for i in pod.gpus for p in self.world.running_on(pod.node, i) if p is not pod}
        for group in sorted(groups):
            self._retime(self.world.attempts[group])

    def _retime(self, attempt: Attempt) -> None:
        self._note_capacity(attempt)
        if attempt.speed > 0 and attempt.work is not None:
            self._settle(attempt)
            self._set_speed(attempt, attempt.work)

    def _note_capacity(self, attempt: Attempt) -> None:
        """A service's capacity has changed; before its first replica ran, its address is unknown."""
        work, world = attempt.work, self.world
        if work is None or work.kind != Kind.INFERENCE or not world.conditions.has_requests:
            return
        service = world.services.get(attempt.workload)
        now = speed.capacity(world, attempt.pods.values(), work)
        if service is None or service.attempt < attempt.attempt:
            if not now.replicas:
                return
            if service is None:
                service = Service(attempt.workload, attempt.attempt, attempt.spec)
                world.services[service.key] = service
            else:
                requests.new_attempt(world, service, attempt.attempt)
            service.spec, service.work = attempt.spec, work
        elif service.attempt > attempt.attempt:
            return  # an old attempt's pods are leaving
        gone = {name for name, _ in service.history[-1].each} if service.history else set()
        gone -= {name for name, _ in now.each}
        # Of those that stopped serving, a pod that was not told to end has broken down with what it had begun.
        known = world.pods
        lost = {n for n in gone if n not in known or (known[n].stopped_at is None and not known[n].is_asleep)}
        same = [c for c in service.history if c.at == now.at]
        lost.update(name for c in same for name in c.lost)
        parts = (service.split[0], service.split[1]) if service.split else None
        is_kept = not now.replicas and bool(service.history) and service.history[-1].is_kept
        now = replace(now, lost=tuple(sorted(lost)), split=parts, is_kept=is_kept)
        service.history = [*(c for c in service.history if c.at < now.at), now]
        world.keep(service)


def _is_elastic(attempt: Attempt) -> bool:
    """Whether the others go on when some workers are told to leave."""
    work = attempt.work
    return work is not None and work.kind == Kind.TRAINING and work.workers_min < work.workers_max
