"""`recovery`: `kill -9` of each process while work runs, waits and comes in; storms; then all of ours stopped.

Time counts from the kill to the first right decision on a job submitted after it (its admission, in the database; for
the API server its pods bound and seen there too). What was killed is started again after a second. The storms are those
of storms.py. Meanwhile work has to leave by priority and for the owners of its GPUs: a workload that runs again without
that, or of which two attempts are alive at once (doubles.py), ran twice.
"""

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.harness.site import Site, Submitter, machine_note, site
from controlplane.benchmarks.reliability.doubles import Doubles
from controlplane.benchmarks.reliability.storms import storm
from controlplane.testbed.processes import wait_until

RUNNING, WAITING, PER_SECOND, REPEAT = 500, 200, 5.0, 3
PARTS = ("web", "worker", "beat", "redis", "postgres", "apiserver")
RESTART_SECONDS, REST_SECONDS, GIVE_UP_SECONDS = 1.0, 4.0, 90.0
STOPPED_SECONDS = 60.0
STORM_SECONDS = 60.0
SUBMITTED = 50  # before a pause alone
GOAL_SECONDS, CONVERGED_SECONDS = 15.0, 30.0
DECIDED = """
    SELECT extract(epoch FROM min(decided.at)) FROM controlplane_event submitted
    JOIN controlplane_event decided ON decided.workload = submitted.workload AND decided.kind = ANY(%s)
    WHERE submitted.kind = 'Submitted' AND submitted.at > to_timestamp(%s)
"""
PLACED = """
    SELECT p.workload_id || '-' || p.attempt || '-' || p.rank FROM controlplane_placement p WHERE p.state = 'Bound'
"""
FRESH_BEATS = """
    SELECT count(*) FROM controlplane_heartbeat
    WHERE at > to_timestamp(%s) AND error = '' AND loop IN ('observe', 'schedule', 'actuate')
"""
NOT_RUNNING = """
    SELECT count(*) FROM controlplane_workload w JOIN controlplane_team t ON t.id = w.team_id
    WHERE t.name = 'fresh' AND w.phase <> 'Running'
"""
KNOWN = "SELECT uid FROM controlplane_workload"
MADE_TO_LEAVE = "SELECT DISTINCT workload FROM controlplane_event WHERE kind IN ('Evicted', 'Shrunk')"
# What had run and was queued again, more often than it was made to leave.
RAN_AGAIN = """
    SELECT DISTINCT again.workload FROM controlplane_event again WHERE again.kind = 'Requeued'
    AND EXISTS (
        SELECT 1 FROM controlplane_event ran
        WHERE ran.workload = again.workload AND ran.kind = 'Running' AND ran.id < again.id
    ) AND 0 < (
        SELECT sum(CASE WHEN e.kind = 'Requeued' THEN 1 WHEN e.phase = 'Checkpointing' THEN -1 ELSE 0 END)
        FROM controlplane_event e
        WHERE e.workload = again.workload AND e.id <= again.id AND e.kind IN ('Requeued', 'Evicted')
    )
"""


@dataclass
class Seen:
    """What was measured and found."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    converged: float = 0.0
    lost: int = 0
    twice: int = 0
    disturbed: int = 0
    made_to_leave: int = 0  # workloads, by Weft's own decisions
    faults: int = 0  # of the storms
    conflicts: int = 0  # that the API server itself told of
    removed: frozenset[str] = frozenset()  # workloads of which a pod was taken away on purpose


def run(options: Options, progress: Progress) -> Result:
    """Kill each process so many times, then stop all of ours. Raises BenchmarkError."""
    part = 1.0 if options.jobs is None else options.jobs / RUNNING
    repeat = options.repeat or REPEAT
    with tempfile.TemporaryDirectory(prefix="weft-recovery-") as folder:
        progress(0.0, "a cluster with work")
        with site(Path(folder), running=round(RUNNING * part), waiting=round(WAITING * part)) as found:
            times = Times(repeat, *(seconds * min(1.0, part * 2) for seconds in (STORM_SECONDS, STOPPED_SECONDS)))
            return _result(measure(found, Path(folder), times, progress), found, repeat)


@dataclass(frozen=True, slots=True)
class Times:
    """How often each process is killed, and how long the storms and the pause last."""

    repeat: int
    storm_seconds: float
    stopped_seconds: float


def measure(found: Site, folder: Path, times: Times, progress: Progress) -> Seen:
    """Kills, storms, and the pause of all of ours; the checks at the end count what went wrong on the way."""
    seen, before = Seen(), found.pods()
    with Doubles(found.cluster) as doubles:
        with Submitter(found, PER_SECOND):
            for number in range(times.repeat):
                for index, part in enumerate(PARTS):
                    progress((number * len(PARTS) + index) / (times.repeat * len(PARTS) + 4), f"kill -9 {part}")
                    seen.seconds.setdefault(part, []).append(killed(found, part))
        _settled(found, time.monotonic() + GIVE_UP_SECONDS)
        progress(0.8, f"storms for {times.storm_seconds:g} s")
        with Submitter(found, PER_SECOND), storm(found, folder) as faults:
            time.sleep(times.storm_seconds)
        seen.faults, seen.conflicts = faults.hits, faults.conflicts
        _settled(found, time.monotonic() + GIVE_UP_SECONDS)
        _pause(seen, found, before, times.stopped_seconds, progress)
    _judge_twice(seen, found, doubles)
    return seen


def pause(found: Site, seconds: float, progress: Progress) -> Seen:
    """All of ours stopped for so long in the midst of work, and nothing else; the checks are those of `measure`."""
    with Submitter(found, PER_SECOND):
        wait_until(lambda: len(found.accepted) >= SUBMITTED, f"{SUBMITTED} accepted jobs", GIVE_UP_SECONDS)
    _settled(found, time.monotonic() + GIVE_UP_SECONDS)
    seen = Seen()
    with Doubles(found.cluster) as doubles:
        _pause(seen, found, found.pods(), seconds, progress)
    _judge_twice(seen, found, doubles)
    return seen


def _pause(seen: Seen, found: Site, before: dict[str, Any], seconds: float, progress: Progress) -> None:
    progress(0.9, f"all of ours stopped for {seconds:g} s")
    seen.converged, seen.removed = _stopped(found, seconds)
    _judge(seen, found, before)


def killed(found: Site, part: str) -> float:
    """Kill a part, start it again, and tell the seconds until the next right decision. Raises BenchmarkError."""
    name = {"worker": found.holder("schedule"), "beat": found.made.replicas("beat")[0]}.get(part, part)
    at = time.time()
    if part == "apiserver":
        found.cluster.kill(part)
        time.sleep(RESTART_SECONDS)
        found.cluster.start(part, wait=False)
    else:
        found.made.kill(name)
        time.sleep(RESTART_SECONDS)
        found.made.start(name)
    kinds = ["Starting", "Running"] if part == "apiserver" else ["Admitted"]
    decided_at = _decided(found, kinds, at, part)
    time.sleep(REST_SECONDS)
    return max(0.0, decided_at - at)


def _decided(found: Site, kinds: list[str], at: float, part: str) -> float:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        for (moment,) in found.ask(DECIDED, kinds, at):
            if moment is not None:
                return float(moment)
        time.sleep(0.1)
    raise BenchmarkError(f"No decision within {GIVE_UP_SECONDS:g} s after kill -9 of {part}.")


# --- all of ours stopped ------------------------------------------------------------------------


def _stopped(found: Site, seconds: float) -> tuple[float, frozenset[str]]:
    """Kill all of ours, take three pods away meanwhile, start again; seconds until all is as it should be."""
    ours = [name for name in found.made.parts if name.partition("-")[0] in ("web", "worker", "beat")]
    for name in ours:
        found.made.kill(name)
    fresh = sorted(name for name, pod in found.pods().items() if pod["metadata"]["labels"]["weft.dev/team"] == "fresh")
    for name in fresh[:3]:
        found.cluster.delete(_path(found, name))
    time.sleep(seconds)
    at, began = time.time(), time.monotonic()
    for name in ours:
        found.made.start(name)
    while not (found.ask(FRESH_BEATS, at) == [(3,)] and _is_consistent(found)):
        if time.monotonic() - began > GIVE_UP_SECONDS:
            raise BenchmarkError(f"Not converged {GIVE_UP_SECONDS:g} s after the start.")
        time.sleep(0.25)
    return time.monotonic() - began, frozenset(name.rsplit("-", 2)[0] for name in fresh[:3])


def _path(found: Site, name: str) -> str:
    return f"/api/v1/namespaces/{found.pods()[name]['metadata']['namespace']}/pods/{name}"


def _is_consistent(found: Site) -> bool:
    """Whether the pods on nodes are the bound placements, all seen running, and nothing is left to do."""
    return not _differences(found)


def _differences(found: Site) -> str:
    """In what the pods on nodes are not the bound placements, all seen running; empty if they are."""
    placed = {name for (name,) in found.ask(PLACED)}
    live = {name for name, pod in found.pods().items() if pod["status"].get("phase") in ("Pending", "Running")}
    ((waiting,),) = found.ask(NOT_RUNNING)
    if placed and placed == live and not waiting:
        return ""
    without, strange = sorted(placed - live), sorted(live - placed)
    return f"{len(placed)} places, without a pod: {without}; pods without a place: {strange}; {waiting} do not run"


def _settled(found: Site, deadline: float) -> None:
    while differences := _differences(found):
        if time.monotonic() > deadline:
            raise BenchmarkError(f"Placements and pods do not agree a while after the last kill: {differences}.")
        time.sleep(0.25)


def _judge(seen: Seen, found: Site, before: dict[str, Any]) -> None:
    """Count what was lost, or disturbed by anything but Weft's own decisions."""
    known = {str(uid) for (uid,) in found.rows(KNOWN)}
    seen.lost = sum(uid not in known for uid in found.accepted)
    left = {str(uid) for (uid,) in found.rows(MADE_TO_LEAVE)}
    seen.made_to_leave = len(left)
    after = found.pods()
    kept = {name: pod["metadata"]["uid"] for name, pod in before.items() if _of(name) not in seen.removed | left}
    seen.disturbed = sum(name not in after or after[name]["metadata"]["uid"] != uid for name, uid in kept.items())


def _judge_twice(seen: Seen, found: Site, doubles: Doubles) -> None:
    """Count jobs that are there twice, that ran again for no reason, or of which two attempts were alive at once."""
    if not doubles.seen:
        raise BenchmarkError("The watch that looks for what runs twice has seen nothing.")
    ((copies,),) = found.rows("SELECT count(*) - count(DISTINCT (team_id, name)) FROM controlplane_workload")
    again = {str(uid) for (uid,) in found.rows(RAN_AGAIN)} - seen.removed
    seen.twice = int(copies) + len(again | doubles.twice)


def _of(pod: str) -> str:
    return pod.rsplit("-", 2)[0]


def _result(seen: Seen, found: Site, repeat: int) -> Result:
    figures = [
        Figure(f"recovery.{part}_seconds_max", round(max(times), 2), "s", GOAL_SECONDS)
        for part, times in seen.seconds.items()
    ]
    figures += [
        Figure("recovery.lost", seen.lost, "", 0),
        Figure("recovery.twice", seen.twice, "", 0),
        Figure("recovery.disturbed", seen.disturbed, "", 0),
        Figure("recovery.stopped_converged_seconds", round(seen.converged, 2), "s", CONVERGED_SECONDS),
    ]
    times = "; ".join(f"{part} {', '.join(f'{s:.1f}' for s in times)}" for part, times in seen.seconds.items())
    return Result(
        tuple(figures),
        (
            f"{repeat} times each, seconds: {times}",
            f"storms: {seen.faults} of our writes answered with 409, 429, 500, 503 or 504; {seen.conflicts} conflicts "
            "that the server itself told of, while another process wrote to all pods",
            f"{seen.made_to_leave} workloads were preempted or gave back what they had borrowed",
            f"{len(found.accepted)} jobs accepted at {PER_SECOND:g}/s, beside those that ran and waited from the start",
            "while all of ours were stopped three pods were taken away; they came back",
            machine_note(found),
        ),
    )
