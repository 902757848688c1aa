"""The memory of a share is never exceeded, and what a process had is free again once it is gone."""

import fcntl
import re
import shutil
import signal
from pathlib import Path

import pytest

from controlplane.enforcer import page
from controlplane.enforcer.page import Page
from controlplane.testbed.fakecuda.rig import Rig
from gpushare.gpu import Share

MIB = 1 << 20


def has(rig: Rig) -> int:
    """MiB that all processes have of the GPU."""
    return rig.sample().taken // MIB


@pytest.fixture
def shared(rig: Rig) -> Rig:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    return rig


def test_no_thread_gets_more_than_is_left_of_the_share(shared: Rig) -> None:
    said = shared.run("a", "allocate", 4, 2500, 200 * MIB, 1)
    assert said.endswith("strange 0\n")
    assert not said.startswith("refused 0 ")
    assert 900 * MIB < shared.sample().peaks["a"] <= 1000 * MIB


def test_no_process_gets_more_than_the_others_of_its_share_have_left(shared: Rig) -> None:
    programs = [shared.start("a", "allocate", 2, 1500, 200 * MIB, seed) for seed in (1, 11, 21)]
    said = [shared.end(program) for program in programs]
    assert all(one.endswith("strange 0\n") and not one.startswith("refused 0 ") for one in said)
    assert 900 * MIB < shared.sample().peaks["a"] <= 1000 * MIB


def test_of_threads_that_each_want_more_than_half_one_at_a_time_gets_it(shared: Rig) -> None:
    assert shared.run("a", "allocate", 8, 4000, 2000 * MIB, 1).endswith("strange 0\n")
    assert shared.sample().peaks["a"] <= 1000 * MIB


def test_a_process_that_counts_keeps_the_others_of_its_share_from_counting(shared: Rig) -> None:
    """We are such a process here: while it waits for us we take so much that it gets nothing."""
    container = Page(shared.shares / "a" / "container", Share(300, 1000, 1000))
    with (shared.shares / "a" / "container" / page.NAME).open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, page.LOCKS)
        fcntl.lockf(file, fcntl.LOCK_EX, 1, page.LOCKS + 1 + 200)
        program = shared.start("a", "reach", 600)
        waits = re.compile(rf"-> POSIX .* {program.pid} ")
        shared.until(
            lambda: bool(waits.search(Path("/proc/locks").read_text())) or program.poll() is not None, "the program"
        )
        container.write(200, 600 * MIB, process=1)
        fcntl.lockf(file, fcntl.LOCK_UN, 1, page.LOCKS)
        assert shared.end(program) == "launch 0 free 400 total 1000 device 1000 alloc 2\n"
    container.close()


def test_each_function_that_allocates_counts(shared: Rig) -> None:
    said = shared.run("a", "kinds", 1001)
    assert said.split("\n")[:-1] == ["alloc 2", "async 2", "pitch 2", "managed 2", "create 2", "array 2", "host 0"]
    assert shared.sample().peaks.get("a", 0) == 0
    said = shared.run("a", "kinds", 170)
    assert said.split("\n")[:-1] == ["alloc 0", "async 0", "pitch 0", "managed 0", "create 0", "array 2", "host 0"]


def test_memory_of_a_killed_process_is_free_again(shared: Rig) -> None:
    program = shared.start("a", "hold", 600)
    assert program.stdout is not None
    assert program.stdout.readline() == "0\n"
    assert "alloc 2" in shared.run("a", "reach", 600)
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert shared.run("a", "reach", 600) == "launch 0 free 1000 total 1000 device 1000 alloc 0\n"


def test_memory_is_held_without_a_daemon(shared: Rig) -> None:
    shared.kill_daemon()
    program = shared.start("a", "hold", 600)
    assert program.stdout is not None
    assert program.stdout.readline() == "0\n"
    assert "free 400 total 1000 device 1000 alloc 2" in shared.run("a", "reach", 401)
    other = shared.start("a", "hold", 300)
    assert other.stdout is not None
    assert other.stdout.readline() == "0\n"
    for one in (program, other):
        one.send_signal(signal.SIGKILL)
        one.wait()
    assert "free 1000 total 1000 device 1000 alloc 0" in shared.run("a", "reach", 1000)


def test_a_context_that_is_destroyed_takes_its_memory_with_it(shared: Rig) -> None:
    assert shared.run("a", "contexts", 600) == "0 2 0\n"


def test_a_forked_child_counts_for_itself_beside_its_parent(shared: Rig) -> None:
    shared.share("b", guarantee=700)
    shared.serves("b")
    shared.start("b", "work", 1000, 10**9, -1, 60)  # so that the child needs answers of the daemon, to itself
    said = shared.run("a", "fork", 400)
    assert said == "child launch 0 alloc 0\nparent launch 0 alloc 0 again 0 free 600\n"
    assert shared.run("a", "fork", 600) == "child launch 0 alloc 2\nparent launch 0 alloc 0 again 0 free 400\n"


def test_two_shares_do_not_touch_each_others_memory(shared: Rig) -> None:
    shared.share("b", guarantee=300, memory=2000)
    shared.serves("b")
    program = shared.start("a", "hold", 1000)
    assert program.stdout is not None
    assert program.stdout.readline() == "0\n"
    assert shared.run("b", "reach", 2000) == "launch 0 free 2000 total 2000 device 2000 alloc 0\n"
    assert has(shared) == 1000


def test_a_share_that_is_made_larger_may_have_more(shared: Rig) -> None:
    shared.share("a", guarantee=300, memory=1500)
    shared.until(lambda: "total 1500" in shared.run("a", "reach", 1), "the new size")
    assert "alloc 0" in shared.run("a", "reach", 1500)


def test_where_there_is_no_page_nothing_may_be_had_and_that_is_said(
    shared: Rig, capfd: pytest.CaptureFixture[str]
) -> None:
    shared.kill_daemon()
    shutil.rmtree(shared.shares / "a" / "container")
    assert "alloc 2" in shared.run("a", "reach", 1)
    assert "is not the page of a share, so no GPU memory can be had here" in capfd.readouterr().err
