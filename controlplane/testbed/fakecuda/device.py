"""Building the fake driver and a program for it, and watching its device from outside."""

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from controlplane.testbed.processes import HOW, MissingError

HERE = Path(__file__).resolve().parent
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror")
DRIVER, MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"
_PLACES, _NAME = 32, 32


class _Group(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * _NAME), ("peak", ctypes.c_uint64))


class _Sample(ctypes.Structure):
    """`struct fake_sample` of driver/device.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("at", "busy", "taken")),
        *((name, ctypes.c_uint64 * _PLACES) for name in ("used", "launched", "memory")),
        *((name, ctypes.c_uint32 * _PLACES) for name in ("pid", "lives")),
        ("groups", _Group * _PLACES),
    )


@dataclass(frozen=True, slots=True)
class Use:
    """Of one process. used: ns of the GPU's time so far; memory: bytes now."""

    used: int
    launched: int
    memory: int


@dataclass(frozen=True, slots=True)
class Sample:
    """A device at a moment (ns). peaks: the most memory of all processes of a group together, bytes."""

    at: int
    busy: int
    taken: int
    of: dict[int, Use]  # by the process's number, also of those that have ended
    living: frozenset[int]
    peaks: dict[str, int]


def compiler() -> str:
    """The C compiler. Raises MissingError."""
    found = shutil.which("gcc")
    if found is None:
        raise MissingError("gcc", HOW)
    return found


@dataclass(frozen=True, slots=True)
class Built:
    """A folder with the driver and the program."""

    folder: Path

    @property
    def client(self) -> Path:
        """The program: programs/client.c says what it can be told."""
        return self.folder / "client"

    def sample(self, device: Path) -> Sample:
        """The device as it is now. It is made if there is none. Raises OSError."""
        found = _Sample()
        library = ctypes.CDLL(str(self.folder / DRIVER))
        if library.fakecuda_sample(str(device).encode(), ctypes.byref(found)):
            raise OSError(f"{device} is no device")
        places = range(_PLACES)
        uses = {found.pid[i]: Use(found.used[i], found.launched[i], found.memory[i]) for i in places if found.pid[i]}
        living = frozenset(found.pid[i] for i in places if found.lives[i])
        peaks = {group.name.decode(): group.peak for group in found.groups if group.name}
        return Sample(found.at, found.busy, found.taken, uses, living, peaks)


def build(folder: Path) -> Built:
    """Build them. Raises MissingError without a compiler."""
    gcc = compiler()
    driver = map(str, sorted((HERE / "driver").glob("*.c")))
    shared = ["-fPIC", "-shared", f"-Wl,-soname,{DRIVER}", "-o", str(folder / DRIVER)]
    subprocess.run([gcc, *FLAGS, *shared, *driver, "-lpthread"], check=True)
    management = ["-fPIC", "-shared", f"-Wl,-soname,{MANAGEMENT}", "-o", str(folder / MANAGEMENT)]
    subprocess.run([gcc, *FLAGS, *management, str(HERE / "nvml" / "nvml.c")], check=True)
    linked = [str(HERE / "programs" / "client.c"), f"-L{folder}", f"-l:{DRIVER}", "-lpthread", "-ldl"]
    subprocess.run([gcc, *FLAGS, "-o", str(folder / "client"), *linked], check=True)
    return Built(folder)
