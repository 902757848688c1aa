"""`fencing`: two workers, and the holder of the lease is stopped and let go again, many times, mostly in mid-round.

A trigger in the database is the judge: each write of a loop (its events, its commands done, its rounds stored, how far
it has observed) is compared with the holder of that loop's lease at that moment, and the session says which worker
writes. A round is stored even where each of its decisions came too late, so that what other fences hold back, the
version of each row, does not hide a lease that holds nothing back. Pods are judged by the placements.

The workers are not as production starts them: their leases last two seconds, so that there is time for 200 stops, and
they log warnings only, since their logs tell which one stopped itself.
"""

import itertools
import signal
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

from controlplane.benchmarks.harness import processes
from controlplane.benchmarks.harness.figure import BenchmarkError, Figure, Options, Progress, Result
from controlplane.benchmarks.harness.site import Site, Submitter, machine_note, site
from controlplane.benchmarks.reliability.recovery import NOT_RUNNING, RUNNING, WAITING
from controlplane.benchmarks.reliability.stopping import OVER
from controlplane.testbed.processes import end, start

STOPS, IN_ROUND = 200, 50
PAUSE_SECONDS = 3.2  # longer than the lease: 2 s, and the other one looks once a second
PER_SECOND = 5.0
SETTLE_SECONDS = 60.0
JUDGE = """
    CREATE TABLE fencing_old_write (loop text, writer text, holder text, at timestamptz DEFAULT clock_timestamp());
    -- With the rights of its owner: workers may not write to that table, and what they wrote would be refused instead.
    CREATE FUNCTION fencing_judge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
    DECLARE named text; current text;
    BEGIN
        -- As JSON, for a command has no actor, and to name a column that is not there is an error.
        named := coalesce(substr(to_jsonb(NEW) ->> 'actor', 6), to_jsonb(NEW) ->> 'loop', TG_ARGV[0]);
        SELECT holder INTO current FROM controlplane_lease WHERE name = named;
        IF current IS DISTINCT FROM current_setting('application_name') THEN
            INSERT INTO fencing_old_write (loop, writer, holder)
            VALUES (named, current_setting('application_name'), current);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER fencing_events AFTER INSERT ON controlplane_event
        FOR EACH ROW WHEN (NEW.actor LIKE 'loop:%') EXECUTE FUNCTION fencing_judge();
    CREATE TRIGGER fencing_rounds AFTER INSERT ON controlplane_cycle
        FOR EACH ROW EXECUTE FUNCTION fencing_judge();
    CREATE TRIGGER fencing_cursor AFTER UPDATE ON controlplane_clusterstate
        FOR EACH ROW WHEN (OLD.cursor <> NEW.cursor AND NEW.cursor <> '') EXECUTE FUNCTION fencing_judge('observe');
    CREATE TRIGGER fencing_actions AFTER UPDATE ON controlplane_action
        FOR EACH ROW WHEN (OLD.done_at IS NULL AND NEW.done_at IS NOT NULL) EXECUTE FUNCTION fencing_judge('actuate');
"""
PLACED = """
    SELECT workload_id || '-' || attempt || '-' || rank, node, gpus FROM controlplane_placement
    WHERE state IN ('Bound', 'Leaving')
"""
OPEN = "SELECT count(*) FROM controlplane_action WHERE done_at IS NULL"
TAKEOVERS = "SELECT coalesce(sum(epoch), 0) FROM controlplane_lease"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was done, and what the judge and the pods say."""

    in_round: int  # stops between read and commit
    holders: int  # stops of a lease's holder at any time
    old_writes: int
    wrong: frozenset[str]  # pods
    judged: int  # events of loops
    takeovers: int  # the sum of all epochs


def run(options: Options, progress: Progress) -> Result:
    """Stop and let go, so many times; then let all settle and judge. Raises BenchmarkError."""
    stops = options.jobs or STOPS
    with (
        tempfile.TemporaryDirectory(prefix="weft-fencing-") as name,
        site(Path(name), running=RUNNING, waiting=WAITING) as found,
    ):
        seen = measure(found, Path(name), stops, min(IN_ROUND, stops // 4), progress)
        return Result(
            (
                Figure("fencing.old_writes", float(seen.old_writes), "", 0),
                Figure("fencing.wrong_pods", float(len(seen.wrong)), "", 0),
            ),
            (
                f"wrong: {', '.join(sorted(seen.wrong)[:5]) or 'none'}",
                f"{seen.in_round + seen.holders} stops, {seen.in_round} of them between read and commit; "
                f"leases changed hands, epochs add up to {seen.takeovers}",
                f"{seen.judged} events of loops judged; {len(found.accepted)} jobs submitted meanwhile",
                machine_note(found),
            ),
        )


def measure(found: Site, folder: Path, stops: int, in_round: int, progress: Progress) -> Seen:
    """Stop workers so many times, at least `in_round` of them between read and commit. Raises BenchmarkError."""
    for worker in found.made.replicas("worker"):
        found.made.stop(worker)  # ours, with pauses, take their place
    with found.database() as database:
        database.execute(JUDGE)
    with ExitStack() as stack:
        workers = [_worker(stack, found, folder, number) for number in (1, 2)]
        with Submitter(found, PER_SECOND):
            stopped_in_round, holders = _stop_and_go(found, workers, stops, in_round, progress)
        _settled(found, folder, workers)
    if left := _left(found, OPEN):
        raise BenchmarkError(f"{left} commands were still not noted as done when nothing got less any more.")
    ((old,),) = found.rows("SELECT count(*) FROM fencing_old_write")
    ((judged,),) = found.rows("SELECT count(*) FROM controlplane_event WHERE actor LIKE 'loop:%%'")
    ((takeovers,),) = found.rows(TAKEOVERS)
    return Seen(stopped_in_round, holders, int(old), frozenset(_wrong(found)), int(judged), int(takeovers))


Worker = tuple["Popen[bytes]", Path]


def _worker(stack: ExitStack, found: Site, folder: Path, number: int) -> Worker:
    log = folder / f"fencing-{number}.log"
    env = {**found.made.parts["worker-1"].env, "WEFT_WORKER_METRICS_PORT": "0", "WEFT_LOG_LEVEL": "WARNING"}
    env[OVER] = str(folder / "over")
    process = start(processes.manage("benchmark_process", "fencing-worker"), log=log, env=env)
    stack.callback(end, process, signal.SIGKILL)  # all is judged by then
    return process, log


def _stop_and_go(
    found: Site, workers: list[Worker], stops: int, min_in_round: int, progress: Progress
) -> tuple[int, int]:
    """Let go each worker that stopped itself in a round; when none does, stop the holder. (in a round, holders)."""
    in_round, holders = 0, 0
    for number in itertools.count():
        if in_round + holders >= stops and in_round >= min_in_round:
            return in_round, holders
        progress(min(0.99, (in_round + holders) / stops), f"{in_round} stops in a round, {holders} of the holder")
        for process, log in workers:
            if process.poll() is not None:
                raise BenchmarkError(f"A worker ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        stopped = [process for process, _ in workers if _is_stopped(process)]
        if len(stopped) == len(workers):  # none is left to take over
            stopped.pop().send_signal(signal.SIGCONT)
            in_round += 1
        elif stopped:
            time.sleep(PAUSE_SECONDS)
            stopped[0].send_signal(signal.SIGCONT)
            in_round += 1
            time.sleep(0.1)
        elif number % 10 == 9:
            holder = _holder(found, workers)
            holder.send_signal(signal.SIGSTOP)
            time.sleep(PAUSE_SECONDS)
            holder.send_signal(signal.SIGCONT)
            holders += 1
        else:
            time.sleep(0.1)
    raise AssertionError  # count() never ends


def _holder(found: Site, workers: list[Worker]) -> "Popen[bytes]":
    rows = found.ask("SELECT holder FROM controlplane_lease WHERE name = 'schedule'")
    named = rows[0][0] if rows else ""
    return next((process for process, _ in workers if named.endswith(f":{process.pid}")), workers[0][0])


def _is_stopped(process: "Popen[bytes]") -> bool:
    text = Path(f"/proc/{process.pid}/stat").read_text()
    return text.rpartition(")")[2].split()[0] == "T"


def _settled(found: Site, folder: Path, workers: list[Worker]) -> None:
    """Let both workers go on without pauses until nothing is left to do; what does not get less for a minute, is wrong.

    Hundreds of jobs were submitted while both stood still most of the time.
    """
    (folder / "over").touch()
    deadline, least = time.monotonic() + SETTLE_SECONDS, float("inf")
    while (left := len(_wrong(found)) + _left(found, NOT_RUNNING) + _left(found, OPEN)) and time.monotonic() < deadline:
        if left < least:
            deadline, least = time.monotonic() + SETTLE_SECONDS, left
        for process, _ in workers:  # one of its threads may have been about to stop it
            process.send_signal(signal.SIGCONT)
        time.sleep(0.5)


def _left(found: Site, count: str) -> int:
    ((number,),) = found.ask(count)
    return int(number)


def _wrong(found: Site) -> set[str]:
    """Pods that are not where a placement puts them, placements without their pod, and pods started twice."""
    placed: dict[str, Any] = {name: (node, list(gpus)) for name, node, gpus in found.ask(PLACED)}
    pods = found.pods()
    wrong = set(placed) ^ set(pods)
    for name, pod in pods.items():
        gpus = [
            int(part) for part in pod["metadata"]["annotations"].get("internal.weft.dev/gpus", "").split(",") if part
        ]
        if name in placed and placed[name] != (pod["spec"]["nodeName"], gpus):
            wrong.add(name)
    return wrong
