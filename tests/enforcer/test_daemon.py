"""The daemon's folders and pages."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from controlplane.enforcer import page, shares
from controlplane.enforcer.__main__ import main
from controlplane.enforcer.page import MIB, Page
from controlplane.enforcer.wire import Kind, Message
from controlplane.testbed.fakecuda.rig import Rig
from gpushare.gpu import Share

SHARE = Share(300, 1000, 1000)


def holds(rig: Rig, share: str, mib: int) -> "subprocess.Popen[str]":
    program = rig.start(share, "hold", mib)
    assert program.stdout is not None
    assert program.stdout.readline() == "0\n"
    return program


def log(rig: Rig) -> str:
    return (rig.folder / "daemon.log").read_text()


def test_the_page_tells_what_each_process_has(rig: Rig) -> None:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    first, second = holds(rig, "a", 300), holds(rig, "a", 200)
    rig.run("a", "reach", 600)
    slots = {slot.process: slot for slot in page.seen(rig.shares / "a" / "container")}
    assert {first.pid: 300 * MIB, second.pid: 200 * MIB}.items() <= {n: s.used for n, s in slots.items()}.items()


def test_slots_of_dead_processes_are_emptied_and_those_of_living_ones_stay(rig: Rig) -> None:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    dead, living = holds(rig, "a", 300), holds(rig, "a", 200)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    seen = Page(rig.shares / "a" / "container", SHARE)
    seen.clear_dead()
    assert [slot.process for slot in seen.slots()] == [living.pid]
    seen.close()


def test_a_page_that_a_container_has_cut_short_does_no_harm_to_others(rig: Rig) -> None:
    for name in ("a", "b"):
        rig.share(name, guarantee=300, memory=1000)
    rig.serve()
    os.truncate(rig.shares / "a" / "container" / "page", 10)
    program = holds(rig, "b", 500)
    program.send_signal(signal.SIGKILL)
    program.wait()
    assert "alloc 0" in rig.run("b", "reach", 1000)
    assert page.seen(rig.shares / "a" / "container") == ()
    assert rig.daemon is not None
    assert rig.daemon.poll() is None


def test_what_is_wrong_with_a_share_is_said_once_and_the_others_are_served(rig: Rig) -> None:
    rig.share("b", guarantee=300)
    (rig.shares / "a").mkdir()
    (rig.shares / "a" / "share.json").write_text('{"gpu": "0", "guarantee": 0, "limit": 1000, "memory": 1}')
    rig.serve("b")
    rig.share("c", guarantee=300)
    rig.serves("c")
    assert log(rig).count("need 0 < guarantee <= limit") == 1


def test_a_folder_that_goes_takes_its_share_with_it(rig: Rig) -> None:
    rig.share("a", guarantee=300)
    rig.share("b", guarantee=700)
    rig.serve()
    rig.start("a", "work", 1000, 10**9, -1, 60)
    rig.until(lambda: rig.sample().busy > 0, "work")
    shutil.rmtree(rig.shares / "a")
    rig.share("c", guarantee=300)
    rig.serves("c")
    assert "alloc 0" in rig.run("c", "reach", 1)


def test_a_stranger_to_the_protocol_is_shown_out(rig: Rig) -> None:
    rig.share("a", guarantee=300)
    rig.serve()
    folder = os.open(rig.shares / "a" / "container", os.O_PATH)
    for said in (b"hello", Message(Kind.ASK).packed(), Message(Kind.HELLO, 0, 99).packed()):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
            link.connect(f"/proc/self/fd/{folder}/socket")
            link.send(said)
            assert link.recv(100) == b""
    os.close(folder)
    assert "launch 0" in rig.run("a", "reach", 1)


def test_a_share_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert shares.read(tmp_path) is None
    shares.write(tmp_path, shares.Placed("GPU-1", SHARE))
    assert shares.read(tmp_path) == shares.Placed("GPU-1", SHARE)
    (tmp_path / "share.json").write_text("[]")
    with pytest.raises(ValueError, match="share.json"):
        shares.read(tmp_path)


def test_the_status_tells_what_each_share_has(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    rig.share("a", guarantee=300, limit=900, memory=1000)
    rig.serve()
    holds(rig, "a", 300)
    (rig.shares / "b").mkdir()
    (rig.shares / "b" / "share.json").write_text("{")
    assert main(["--folder", str(rig.shares), "--status"]) == 0
    head, line, wrong = capsys.readouterr().out.splitlines()
    assert head.split() == ["SHARE", "GPU", "GUARANTEE", "LIMIT", "MEMORY", "MIB", "USED", "MIB", "PROCESSES", "TIME"]
    assert line.split() == ["a", "0", "300", "900", "1000", "300", "1", "held"]
    assert wrong.startswith("b: ")


def test_a_library_that_cannot_be_built_is_said_with_the_compilers_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--library", str(tmp_path / "made")]) == 1
    assert "gcc is missing: install Debian's gcc and libc6-dev" in capsys.readouterr().err
    (tmp_path / "gcc").write_text("#!/bin/sh\necho it is broken >&2; exit 1\n")
    (tmp_path / "gcc").chmod(0o755)
    assert main(["--library", str(tmp_path / "made")]) == 1
    assert "libweft-gpu.so could not be built:\nit is broken" in capsys.readouterr().err
