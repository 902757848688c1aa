"""Building the library with a C compiler alone."""

import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
LIBRARY, START, PROBE = "libweft-gpu.so", "weft-gpu-run", "weft-gpu-probe"
FLAGS = ("-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror")


class BuildError(Exception):
    """It could not be built; the message says why."""


def build(folder: Path) -> Path:
    """Build the library into a folder, with the program that starts others with it; its path. Raises BuildError."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise BuildError("gcc is missing: install Debian's gcc and libc6-dev")
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted((HERE / "library").glob("*.c"))
    shared = ("-fPIC", "-fvisibility=hidden", "-shared")
    _compile(compiler, folder / LIBRARY, [*shared, *map(str, sources), "-lpthread", "-ldl"])
    _compile(compiler, folder / START, ["-static", str(HERE / "programs" / "start.c")])
    _compile(compiler, folder / PROBE, [str(HERE / "programs" / "probe.c"), "-ldl"])
    return folder / LIBRARY


def _compile(compiler: str, made: Path, told: list[str]) -> None:
    done = subprocess.run([compiler, *FLAGS, "-o", str(made), *told], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{made.name} could not be built:\n{done.stderr}")
