"""Programs get our functions, however they ask for the driver's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.enforcer import build
from controlplane.enforcer.build import LIBRARY
from controlplane.testbed.fakecuda import wheels
from controlplane.testbed.fakecuda.device import FLAGS, compiler
from controlplane.testbed.fakecuda.rig import Rig

SOURCES = Path(build.__file__).parent / "library"
VERSIONS = (2000, 3020, 4000, 5000, 7000, 9000, 10_000, 10_010, 11_000, 11_060, 12_000, 12_030, 13_000)
WAYS = ("linked", "dlsym", "next", "default", "address", "address11")

PYTHON = """
import cuda.bindings.driver as driver
driver.cuInit(0), driver.cuCtxCreate(0, 0)
module = driver.cuModuleLoadData(b"")[1]
kernel = driver.cuModuleGetFunction(module, b"busy_100")[1]
launched = driver.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)[0]
print(int(launched), driver.cuMemGetInfo()[2] >> 20, int(driver.cuMemAlloc(1001 << 20)[0]))
"""
RUNTIME = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
print(runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(1 << 20)))
"""
TOOL = """
import ctypes
nvml = ctypes.CDLL("libnvidia-ml.so.1")
device, first, second = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)(), (ctypes.c_ulonglong * 5)()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
print(nvml.nvmlDeviceGetMemoryInfo(device, first), *(one >> 20 for one in first))
print(nvml.nvmlDeviceGetMemoryInfo_v2(device, second), *(one >> 20 for one in second[1:]))
"""
# Some of what the CUDA runtime 12.9 fetches of that for which the library stands in.
FETCHED = {
    "cuLaunchKernel 4000 0", "cuLaunchKernel 7000 2", "cuLaunchKernelEx 11060 0", "cuLaunchKernelEx 11060 2",
    "cuLaunchCooperativeKernel 9000 0", "cuGraphLaunch 10000 0", "cuGraphLaunch 10000 2", "cuMemAlloc 3020 0",
    "cuMemAllocManaged 6000 0", "cuMemAllocAsync 11020 2", "cuMemFree 3020 0", "cuMemGetInfo 3020 0",
    "cuStreamBeginCapture 10010 2", "cuGetProcAddress 12000 0",
}  # fmt: skip

# Two libraries with a function of one name, and a program whose first library asks for what comes after it.
FIRST = """
#define _GNU_SOURCE
#include <dlfcn.h>
int mark(void) { return 1; }
int next_mark(void) { int (*found)(void) = dlsym(RTLD_NEXT, "mark"); return found ? found() : -1; }
"""
SECOND = "int mark(void) { return 2; }"
ASKS = """
#include <stdio.h>
int mark(void), next_mark(void);
int main(void) { return printf("%d %d\\n", mark(), next_mark()) < 0; }
"""


@pytest.mark.parametrize("way", WAYS)
def test_a_program_is_held_to_its_memory_however_it_gets_the_driver(rig: Rig, way: str) -> None:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    assert rig.run("a", "reach", 1001, way=way) == "launch 0 free 1000 total 1000 device 1000 alloc 2\n"
    assert rig.run("a", "reach", 1000, way=way) == "launch 0 free 1000 total 1000 device 1000 alloc 0\n"


@pytest.mark.parametrize("way", ["address", "address11"])
def test_a_driver_may_give_other_addresses_by_itself_than_dlsym_does(rig: Rig, way: str) -> None:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    program = rig.start("a", "reach", 1001, way=way, FAKECUDA_OTHER_ADDRESSES="1")
    assert rig.end(program) == "launch 0 free 1000 total 1000 device 1000 alloc 2\n"


@pytest.mark.parametrize("way", WAYS)
def test_without_the_library_a_program_has_the_whole_gpu(rig: Rig, way: str) -> None:
    assert rig.run(None, "reach", 1001, way=way) == "launch 0 free 16384 total 16384 device 16384 alloc 0\n"


def test_without_a_share_the_library_changes_nothing(rig: Rig) -> None:
    program = rig.start(None, "reach", 1001, LD_PRELOAD=str(rig.library))
    assert rig.end(program) == "launch 0 free 16384 total 16384 device 16384 alloc 0\n"


def test_a_program_that_has_no_gpu_runs_as_before(rig: Rig) -> None:
    rig.share("a", guarantee=300)
    program = rig.start_program([sys.executable, "-c", "print(1)"], "a", LD_LIBRARY_PATH="")
    assert rig.end(program) == "1\n"


def test_what_comes_next_is_looked_for_from_where_the_caller_is(rig: Rig, tmp_path: Path) -> None:
    for name, text in (("first", FIRST), ("second", SECOND)):
        (tmp_path / f"{name}.c").write_text(text)
        command = [
            compiler(),
            *FLAGS,
            "-fPIC",
            "-shared",
            "-o",
            tmp_path / f"lib{name}.so",
            tmp_path / f"{name}.c",
            "-ldl",
        ]
        subprocess.run(command, check=True)
    (tmp_path / "asks.c").write_text(ASKS)
    libraries = [f"-L{tmp_path}", "-Wl,--no-as-needed", "-lfirst", "-lsecond", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run([compiler(), *FLAGS, "-o", tmp_path / "asks", tmp_path / "asks.c", *libraries], check=True)
    assert rig.end(rig.start_program([str(tmp_path / "asks")], "a")) == "1 2\n"


def test_the_bindings_of_python_are_held_to_their_memory(rig: Rig) -> None:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    program = rig.start_program([sys.executable, "-c", PYTHON], "a", PYTHONPATH=str(wheels.find()))
    assert rig.end(program) == "0 1000 2\n"


def test_tools_that_ask_the_management_library_are_told_of_the_share(rig: Rig) -> None:
    rig.share("a", guarantee=300, memory=1000)
    rig.serve()
    whole = rig.end(rig.start_program([sys.executable, "-c", TOOL], None))
    assert whole == "0 16384 10240 6144\n0 16384 1024 10240 5120\n"
    holder = rig.start("a", "hold", 300)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "0\n"
    told = rig.end(rig.start_program([sys.executable, "-c", TOOL], "a"))
    assert told == "0 1000 700 300\n0 1000 0 700 300\n"


def test_the_cuda_runtime_fetches_our_functions(rig: Rig, tmp_path: Path) -> None:
    """It refuses a driver that is not NVIDIA's, so this is seen by asking again for all that it had asked for."""
    names = tmp_path / "names"
    command = [sys.executable, "-c", RUNTIME, str(wheels.runtime())]
    assert rig.end(rig.start_program(command, None, FAKECUDA_NAMES=str(names))) != "0\n", "it ran on a fake driver"
    rig.share("a", guarantee=300)
    answers = [line.split() for line in rig.run("a", "fetched", names).splitlines()]
    ours = {" ".join(question) for *question, _, library in answers if library == LIBRARY}
    assert len(answers) > 380
    assert FETCHED - ours == set()
    assert len(ours) == 45


def test_the_cuda_runtime_asks_our_library_where_the_driver_is(rig: Rig, tmp_path: Path) -> None:
    rig.share("a", guarantee=300)
    command = [sys.executable, "-c", RUNTIME, str(wheels.runtime())]
    rig.end(rig.start_program(command, "a", LD_DEBUG="bindings", LD_DEBUG_OUTPUT=str(tmp_path / "bindings")))
    said = "".join(path.read_text() for path in tmp_path.glob("bindings.*"))
    assert re.search(rf"binding file \S+libcudart\S+ \[0\] to \S+{LIBRARY} \[0\]: normal symbol `dlsym'", said)


def test_each_function_stands_in_for_the_one_of_its_own_name(rig: Rig, tmp_path: Path) -> None:
    """In all versions and for both kinds of default stream: another one would be called with the wrong arguments."""
    names = sorted(set(re.findall(r"X\(\w+, (\w+), \d+", (SOURCES / "driver.h").read_text())))
    asked = [f"{name} {version} {flags}" for name in names for version in VERSIONS for flags in (0, 1, 2)]
    (tmp_path / "names").write_text("\n".join(asked))
    rig.share("a", guarantee=300)
    plain, ours = (
        [line.split() for line in rig.run(share, "fetched", tmp_path / "names").splitlines()] for share in (None, "a")
    )
    assert [line[:4] for line in ours] == [line[:4] for line in plain]
    assert {name for name, *_, library in ours if library == LIBRARY} == set(names)
    assert len(names) > 30
