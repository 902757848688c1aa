"""The time of a GPU is divided as promised. Bounds are wide, for machines that are busy elsewhere: how exact it is, the
benchmark `interposer` says."""

import signal

from controlplane.enforcer.__main__ import status as told
from controlplane.testbed.fakecuda.rig import Rig

BACKLOGGED = 10**9  # kernels: more than a run can take
SECOND = 10**9  # ns


def serve_two(rig: Rig) -> None:
    """Shares a of 30 % and b of 70 %, and the daemon."""
    rig.share("a", guarantee=300)
    rig.share("b", guarantee=700)
    rig.serve()


def busy(rig: Rig, share: str | None, kernel_us: int = 1000, **more: str) -> int:
    """A program that has work at all times; its number, once it has begun."""
    program = rig.start(share, "work", kernel_us, BACKLOGGED, -1, 60, **more)
    rig.until(lambda: used(rig, program.pid) > 0, f"the program of {share}")
    return program.pid


def used(rig: Rig, pid: int) -> int:
    found = rig.sample().of.get(pid)
    return found.used if found else 0


def parts(rig: Rig, *programs: int, length: int = 2 * SECOND) -> list[float]:
    """What part of the GPU's time each has, from now on for so long."""
    before = rig.sample()
    rig.until(lambda: rig.sample().at >= before.at + length, "the GPU")
    after = rig.sample()
    return [(after.of[pid].used - before.of[pid].used) / (after.at - before.at) for pid in programs]


def test_without_the_library_the_driver_divides_equally(rig: Rig) -> None:
    one, two = parts(rig, busy(rig, None), busy(rig, None))
    assert 0.45 < one / (one + two) < 0.55


def test_each_gets_the_part_that_it_was_promised(rig: Rig) -> None:
    serve_two(rig)
    small, large = parts(rig, busy(rig, "a"), busy(rig, "b"))
    assert small + large > 0.8
    assert 0.25 < small / (small + large) < 0.35


def test_a_program_with_several_streams_is_held_too(rig: Rig) -> None:
    serve_two(rig)
    small, large = parts(rig, busy(rig, "a", STREAMS="3"), busy(rig, "b"))
    assert small + large > 0.8
    assert 0.25 < small / (small + large) < 0.35


def test_two_processes_of_one_share_have_its_part_together(rig: Rig) -> None:
    serve_two(rig)
    one, two, other = parts(rig, busy(rig, "a"), busy(rig, "a"), busy(rig, "b"))
    assert 0.25 < (one + two) / (one + two + other) < 0.35
    assert min(one, two) > 0.05


def test_what_others_leave_idle_is_used(rig: Rig) -> None:
    serve_two(rig)
    (alone,) = parts(rig, busy(rig, "a"))
    assert alone > 0.8


def test_one_that_has_the_token_and_nothing_to_do_gives_it_up(rig: Rig) -> None:
    """Steps of 5 ms with 50 ms between them: if it kept the token in between, the other one would have its 70 %."""
    serve_two(rig)
    other = busy(rig, "b")
    rig.start("a", "work", 1000, 5, 50_000, 60)
    (rest,) = parts(rig, other)
    assert rest > 0.78


def test_a_limit_is_kept_also_on_an_idle_gpu_and_followed_when_it_changes(rig: Rig) -> None:
    rig.share("a", guarantee=300, limit=300)
    rig.serve()
    held = busy(rig, "a")
    (at_first,) = parts(rig, held, length=3 * SECOND)
    assert 0.2 < at_first < 0.32
    rig.share("a", guarantee=300, limit=600)
    rig.until(lambda: parts(rig, held, length=SECOND)[0] > 0.45, "the new limit")


def test_a_killed_holder_is_not_waited_for(rig: Rig) -> None:
    serve_two(rig)
    killed, other = rig.start("a", "work", 1000, BACKLOGGED, -1, 60), busy(rig, "b")
    rig.until(lambda: used(rig, killed.pid) > 0, "both")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    (alone,) = parts(rig, other, length=SECOND)
    assert alone > 0.8


def test_a_holder_that_hangs_loses_the_token(rig: Rig) -> None:
    serve_two(rig)
    hung, other = rig.start("a", "work", 1000, BACKLOGGED, -1, 60), busy(rig, "b")
    rig.until(lambda: used(rig, hung.pid) > 0, "both")
    hung.send_signal(signal.SIGSTOP)
    rig.until(lambda: parts(rig, other, length=SECOND // 2)[0] > 0.8, "the other one alone")
    hung.send_signal(signal.SIGCONT)
    rig.until(lambda: 0.2 < parts(rig, hung.pid, length=SECOND)[0] < 0.4, "both again")


def test_without_its_daemon_programs_go_on_unheld_and_are_held_again_after_its_return(rig: Rig) -> None:
    serve_two(rig)
    one, two = busy(rig, "a"), busy(rig, "b")
    rig.kill_daemon()
    rig.until(lambda: min(parts(rig, one, two, length=SECOND)) > 0.4, "both as the driver has it")
    assert all(" advisory" in line for line in status(rig)[1:])
    rig.serve()
    rig.until(lambda: 0.25 < parts(rig, one, length=SECOND)[0] < 0.35, "the shares again")
    assert all(" held" in line for line in status(rig)[1:])


def test_a_daemon_that_hangs_is_as_good_as_none(rig: Rig) -> None:
    serve_two(rig)
    one, two = busy(rig, "a"), busy(rig, "b")
    assert rig.daemon is not None
    rig.daemon.send_signal(signal.SIGSTOP)
    rig.until(lambda: min(parts(rig, one, two, length=SECOND)) > 0.4, "both as the driver has it")
    rig.daemon.send_signal(signal.SIGCONT)
    rig.until(lambda: 0.25 < parts(rig, one, length=SECOND)[0] < 0.35, "the shares again")


def test_one_that_waits_for_its_limit_knows_that_the_daemon_lives(rig: Rig) -> None:
    """With 1 % it waits for three seconds and more."""
    rig.share("a", guarantee=10, limit=10)
    rig.serve()
    held = busy(rig, "a")
    assert parts(rig, held, length=4 * SECOND)[0] < 0.03
    assert " held" in status(rig)[1]


def status(rig: Rig) -> list[str]:
    return list(told(rig.shares))


def test_a_program_without_a_daemon_from_the_start_runs_unheld(rig: Rig) -> None:
    rig.share("a", guarantee=300, limit=300)
    rig.serve()
    rig.kill_daemon()
    (alone,) = parts(rig, busy(rig, "a"), length=SECOND)
    assert alone > 0.8


def test_work_of_the_processor_beside_that_of_the_gpu_costs_no_time(rig: Rig) -> None:
    """20 ms of the GPU beside 15 ms of the processor: a queue that is too short makes that 30 ms and more."""
    rig.share("a", guarantee=300)
    rig.serve()
    assert int(rig.run("a", "overlapped", 1000, 20, 15_000, 50)) < 28_000


def test_captures_of_graphs_are_not_broken(rig: Rig) -> None:
    serve_two(rig)
    busy(rig, "b")
    said = rig.run("a", "capture", 2).split()
    assert int(said[1]) > 5
    assert said[2:] == ["broken", "0"]
