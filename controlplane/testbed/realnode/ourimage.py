"""Our own image, put together without a container engine: the Dockerfile's steps in a root of their own.

What is replaced: python:3.11-slim by this machine's Debian Python with the libraries that it loads, Debian's packages
by those that the machine has, and no cache by the machine's caches. The instructions are the file's.
"""

import io
import json
import os
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from controlplane.testbed.processes import ROOT
from controlplane.testbed.realnode import images

NAME = "weft"
FILE, IGNORED = ROOT / "Dockerfile", ROOT / ".dockerignore"
BOUND = ("usr", "etc", "proc", "dev", "root", "sys")  # of this machine, in the root in which the steps run
LINKS = ("bin", "lib", "lib64", "sbin")
PACKAGES = ("libc6", "libgcc-s1", "libstdc++6", "tzdata")  # of the base image, that wheels and Python expect
BUILD_SECONDS = 600
INSIDE = """set -eu
for name in {bound}; do mkdir -p "$1/$name"; mount --rbind "/$name" "$1/$name"; done
exec chroot "$1" /bin/sh -euc "cd '$2'; $3"
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of the Dockerfile."""

    word: str
    rest: str


def write(registry: Path, folder: Path, busybox: Path, python: Path) -> None:
    """The image `weft` with tag `1`, built in `folder`. Raises RuntimeError with what a step has said."""
    build, last = stages(FILE.read_text())
    root = folder / "root"
    root.mkdir(parents=True)
    for name in LINKS:
        (root / name).symlink_to(f"usr/{name}")
    _build(root, build)
    settings = settings_of(last)
    layers = [images.shell(busybox), images.python(python), base(python), _own(root, last, settings)]
    images.image(registry, NAME, layers, (), settings)


def stages(text: str) -> list[list[Step]]:
    """The steps of each stage."""
    found: list[list[Step]] = []
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    for line in filter(None, (line.strip() for line in text.splitlines())):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            found.append([])
        else:
            found[-1].append(Step(word, rest))
    return found


def settings_of(steps: Iterable[Step]) -> dict[str, Any]:
    """What the last stage sets for its containers, as an image's config has it."""
    env = {"PATH": "/usr/bin:/bin"}
    found: dict[str, Any] = {}
    for step in steps:
        if step.word == "ENV":
            for pair in shlex.split(step.rest):
                name, value = pair.split("=", 1)
                env[name] = value.replace("$PATH", env["PATH"])
        elif step.word == "WORKDIR":
            found["WorkingDir"] = step.rest
        elif step.word == "CMD":
            found["Cmd"] = json.loads(step.rest)
    uid, _ = user_of(steps)
    return {**found, "User": f"{uid}:{uid}", "Env": [f"{name}={value}" for name, value in env.items()]}


def user_of(steps: Iterable[Step]) -> tuple[int, str]:
    """Number and home of the user that the last stage makes."""
    made = next(step.rest for step in steps if step.rest.startswith("useradd"))
    uid, home = (re.search(rf"--{name} (\S+)", made) for name in ("uid", "home-dir"))
    if uid is None or home is None:
        raise RuntimeError(f"The Dockerfile's user has no number or no home: {made}")
    return int(uid[1]), home[1]


def _build(root: Path, steps: Sequence[Step]) -> None:
    """Perform a stage."""
    folder = "/"
    for step in steps:
        if step.word == "WORKDIR":
            folder = step.rest
            (root / folder.lstrip("/")).mkdir(parents=True)
        elif step.word == "COPY":
            what, _ = step.rest.split()
            _copy(root / folder.lstrip("/"), what)
        elif step.word == "RUN" and not step.rest.startswith("apt-get"):
            _run(root, folder, step.rest)


def _copy(to: Path, what: str) -> None:
    """Files of the checkout, without those that .dockerignore leaves out."""
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "--", what]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    patterns = IGNORED.read_text().split()
    for name in listed:
        parts = [name, *map(str, Path(name).parents)]
        is_left_out = any(fnmatch(part, pattern.rstrip("/")) for part in parts for pattern in patterns)
        if is_left_out or not (ROOT / name).exists():
            continue
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes((ROOT / name).read_bytes())


def _run(root: Path, folder: str, command: str) -> None:
    for said, meant in (("--no-cache-dir", ""), ("--no-cache", ""), ("python -m venv", "python3 -m venv")):
        command = command.replace(said, meant)
    script = INSIDE.format(bound=" ".join(BOUND))
    line = ["unshare", "--mount", "sh", "-c", script, "sh", str(root), folder, command]
    environment = os.environ | {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "TMPDIR"):
        environment.pop(name, None)
    (root / "tmp").mkdir(exist_ok=True)
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"the Dockerfile's `{command}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def base(python: Path) -> bytes:
    """What the base image has beside the interpreter: libraries that wheels and Python load, and time zones."""
    code = "import sysconfig; print(sysconfig.get_path('platstdlib'))"
    library = subprocess.run([python, "-IS", "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    modules = [str(path) for path in Path(library, "lib-dynload").glob("*.so")]
    listed = subprocess.run(["/usr/bin/dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=True).stdout
    files = {path for path in listed.splitlines() if path.startswith("/") and Path(path).is_file()}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for file in sorted({*images.libraries(modules), *files}):
            tar.add(file)
    return out.getvalue()


def _own(root: Path, last: Sequence[Step], settings: Mapping[str, Any]) -> bytes:
    """What the last stage copies from the first, and its user."""
    uid, home = user_of(last)

    def owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        return info

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        images.add(tar, "etc/passwd", f"root:x:0:0::/root:/bin/sh\n{NAME}:x:{uid}:{uid}::{home}:/bin/sh\n".encode())
        for folder in _with_parents(home):
            images.add(tar, folder, type=tarfile.DIRTYPE, mode=0o755)
        images.add(tar, home.lstrip("/"), type=tarfile.DIRTYPE, mode=0o700, uid=uid, gid=uid)
        for step in last:
            if step.word == "COPY":
                _, what, to = step.rest.split()
                tar.add(root / what.lstrip("/"), to.lstrip("/"), filter=owned)
    return out.getvalue()


def _with_parents(path: str) -> Iterator[str]:
    for parent in reversed(Path(path.lstrip("/")).parents):
        if str(parent) != ".":
            yield str(parent)
