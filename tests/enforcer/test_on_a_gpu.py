"""The library on NVIDIA's own driver, with PyTorch: `pytest -m gpu`, on a machine that has both.

These tests have not been run by us: no machine of ours has had a GPU since they were written.
"""

import ctypes
import subprocess
import sys

import pytest

from controlplane.testbed.fakecuda.rig import Rig

pytestmark = pytest.mark.gpu

MEMORY = """
import torch
print(torch.cuda.mem_get_info()[1] >> 20)
kept = torch.empty(500 << 20, dtype=torch.uint8, device="cuda")
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
except torch.cuda.OutOfMemoryError:
    print("out of memory")
"""
WORK = """
import sys, time, torch
a = torch.randn(4096, 4096, device="cuda")
for _ in range(20):
    a @ a
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.readline()
done, until = 0, time.monotonic() + 20
while time.monotonic() < until:
    a @ a
    torch.cuda.synchronize()
    done += 1
print(done)
"""
GRAPH = """
import torch
a = torch.ones(1 << 20, device="cuda")
b = torch.zeros_like(a)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(50):
        b += a
for _ in range(20):
    graph.replay()
torch.cuda.synchronize()
print(int(b[0]))
"""
# Each function that we stand in for, as dlsym and as the driver itself give it.
ADDRESSES = (("cuLaunchKernel", "cuLaunchKernel", 12000), ("cuMemAlloc_v2", "cuMemAlloc", 12000),
             ("cuGraphLaunch", "cuGraphLaunch", 12000), ("cuCtxSynchronize", "cuCtxSynchronize", 12000))  # fmt: skip


@pytest.fixture
def served(rig: Rig) -> Rig:
    for name, guarantee in (("a", 300), ("b", 700)):
        rig.share(name, guarantee=guarantee, memory=2000 if name == "b" else 1000)
    rig.serve()
    return rig


def started(rig: Rig, share: str, text: str) -> "subprocess.Popen[str]":
    """On the machine's own driver, not on the fake one."""
    environment = {name: value for name, value in rig.environment(share).items() if name != "LD_LIBRARY_PATH"}
    command = [sys.executable, "-c", text]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_the_driver_gives_one_address_for_a_function_however_it_is_asked() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    for symbol, name, version in ADDRESSES:
        found, status = ctypes.c_void_p(), ctypes.c_int()
        told = (name.encode(), ctypes.byref(found), version, ctypes.c_uint64(0), ctypes.byref(status))
        assert driver.cuGetProcAddress_v2(*told) == 0
        assert ctypes.cast(getattr(driver, symbol), ctypes.c_void_p).value == found.value, symbol


def test_pytorch_is_held_to_its_memory(served: Rig) -> None:
    assert started(served, "a", MEMORY).communicate()[0] == "1000\nout of memory\n"


def test_pytorch_gets_its_part_of_the_time(served: Rig) -> None:
    both = [started(served, name, WORK) for name in ("a", "b")]
    for one in both:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    done = []
    for one in both:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    for one in both:
        done.append(int(one.communicate()[0]))
    assert 0.25 < done[0] / sum(done) < 0.35


def test_graphs_of_pytorch_are_captured(served: Rig) -> None:
    assert started(served, "a", GRAPH).communicate()[0] == "1000\n"
