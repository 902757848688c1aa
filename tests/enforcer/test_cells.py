"""Programs of notebooks on demand, the daemon, and a driver that moves memory only in what it says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.enforcer import shares
from controlplane.enforcer.__main__ import status
from controlplane.testbed.fakecuda.rig import Rig
from gpushare.gpu import Share
from tests.enforcer.drivers import PROGRAM
from tests.enforcer.test_time import busy, used

SHARE = Share(500, 1000, 1000)


@pytest.fixture
def node(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """Two GPUs, and notebooks a and b on the first one."""
    folder, bin_ = tmp_path / "told", tmp_path / "bin"
    folder.mkdir()
    bin_.mkdir()
    (folder / "VERSION").write_text("580")
    (bin_ / "cuda-checkpoint").symlink_to(PROGRAM)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_DRIVER", str(folder))
    monkeypatch.setenv("FAKE_GPU", "GPU-a")
    rig.shares.mkdir()
    (rig.shares / "node.json").write_text(json.dumps({"gpus": {"GPU-a": 2000, "GPU-b": 2000}, "host_memory": 9000}))
    for name in ("a", "b"):
        shares.write(rig.shares / name, shares.Placed("GPU-a", SHARE, on_demand=True))
    rig.serve("a", "b")
    yield rig


def on(rig: Rig, pid: int) -> str:
    path = rig.folder / "told" / str(pid)
    return path.read_text().split()[1] if path.exists() else ""


def test_the_cell_that_finds_its_gpu_taken_goes_on_on_another_one(node: Rig) -> None:
    first = busy(node, "a")
    second = busy(node, "b")
    assert on(node, second) == "GPU-b"
    assert on(node, first) in ("", "GPU-a"), "what computes is not moved"
    assert shares.moved(node.shares / "b") == {second: "GPU-b"}
    before = used(node, second)
    node.until(lambda: used(node, second) > before, "the second goes on")
    lines = [line.split() for line in status(node.shares)]
    assert len(lines) == 3, "the file of the node is no share"
    assert [(line[0], line[1], line[-2:]) for line in lines[1:3]] == [
        ("a", "GPU-a", ["on", "demand"]),
        ("b", "GPU-b", ["on", "demand"]),
    ]


def test_a_daemon_that_is_started_again_finds_it_there(node: Rig) -> None:
    busy(node, "a")
    second = busy(node, "b")
    node.kill_daemon()
    node.serve("a", "b")
    before = used(node, second)
    node.until(lambda: used(node, second) > before + 10**8, "the second goes on")
    assert on(node, second) == "GPU-b"
    assert "notebook_not_served" not in (node.folder / "daemon.log").read_text()


def test_where_the_tool_cannot_move_they_share_the_gpu(node: Rig) -> None:
    node.kill_daemon()
    (node.folder / "told" / "VERSION").write_text("570")
    node.serve("a", "b")
    first, second = busy(node, "a"), busy(node, "b")
    assert shares.moved(node.shares / "b") == {}
    before = used(node, first), used(node, second)
    node.until(lambda: used(node, first) > before[0] and used(node, second) > before[1], "both go on")


def test_without_the_file_of_the_node_nothing_is_on_demand(node: Rig) -> None:
    node.kill_daemon()
    (node.shares / "node.json").unlink()
    node.serve("a", "b")
    busy(node, "a")
    second = busy(node, "b")
    assert on(node, second) == ""
    assert shares.moved(node.shares / "b") == {}


def test_an_allocation_begins_a_cell_as_a_launch_does(node: Rig) -> None:
    """Else what a program loads first would not find the room that its share books in host memory only."""
    busy(node, "a")
    program = node.start("b", "hold", 100)
    node.until(lambda: on(node, program.pid) == "GPU-b", "the way to the GPU that is idle")
    assert shares.moved(node.shares / "b") == {program.pid: "GPU-b"}


def test_the_file_of_the_node_may_come_and_grow_while_the_daemon_runs(node: Rig) -> None:
    node.kill_daemon()
    (node.shares / "node.json").unlink()
    node.serve("a", "b")
    said = {"gpus": {"GPU-a": 2000}, "host_memory": 9000, "numbers": {"GPU-a": 0}}
    (node.shares / "node.json").write_text(json.dumps(said))
    node.until(lambda: told(node).count("node_known") == 1, "the file")
    (node.shares / "node.json").write_text(json.dumps({**said, "gpus": {"GPU-a": 2000, "GPU-b": 2000}}))
    node.until(lambda: told(node).count("node_known") == 2, "the second GPU")
    busy(node, "a")
    second = busy(node, "b")
    assert on(node, second) == "GPU-b"


def told(rig: Rig) -> str:
    return (rig.folder / "daemon.log").read_text()
