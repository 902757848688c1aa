"""Images that are put together from this machine's own programs, as the files of a registry that only gives.

A folder `v2/NAME` holds manifests and blobs where the distribution API has them, so any server of files will do.
"""

import hashlib
import io
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

USER = 1000  # not root, as pods of level restricted have to be
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
FOLDERS = ("bin", "dev", "etc", "proc", "sys", "tmp")
# Of Python's library: for its own tests, for building it, and what Debian keeps elsewhere.
LEFT_OUT = re.compile(r"config-.*|ensurepip|lib2to3|pydoc_data|sitecustomize\.py|test|__pycache__")
# The sandbox holds a pod's namespaces and has nothing to do until it is killed.
FOR_EVER = ("/bin/tail", "-f", "/dev/null")


def write(registry: Path, busybox: Path, interpreter: Path) -> None:
    """The images `pause` and `shell`, with all that busybox can be called by, and `python`, which has both."""
    layer = shell(busybox)
    image(registry, "pause", [layer], FOR_EVER)
    image(registry, "shell", [layer], ("/bin/sh",))
    image(registry, "python", [layer, python(interpreter)], (str(interpreter),))


def image(
    registry: Path,
    name: str,
    layers: Sequence[bytes],
    entrypoint: Sequence[str],
    changes: Mapping[str, object] = {},
) -> None:
    """An image of these layers (tar files) with the tag `1`; `changes` are of its settings."""
    folder = registry / "v2" / name
    settings = {"User": f"{USER}:{USER}", "Entrypoint": entrypoint, "Env": ["PATH=/usr/bin:/bin"], **changes}
    rootfs = {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]}
    config = {"architecture": "amd64", "os": "linux", "config": settings, "rootfs": rootfs}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(folder, CONFIG, json.dumps(config).encode()),
        "layers": [_blob(folder, LAYER, layer) for layer in layers],
    }
    text = json.dumps(manifest).encode()
    (folder / "manifests").mkdir(parents=True)
    for reference in ("1", _digest(text)):
        (folder / "manifests" / reference).write_bytes(text)


def serve(registry: Path) -> ThreadingHTTPServer:
    """Give the images on a loopback port, until `shutdown`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(registry)))
    Thread(target=server.serve_forever, name="registry", daemon=True).start()
    return server


class _Files(SimpleHTTPRequestHandler):
    """A registry's answers."""

    def guess_type(self, path: Any) -> str:
        """The media type, by which clients know a manifest."""
        return MANIFEST if "/manifests/" in str(path) else "application/octet-stream"

    def log_message(self, *_: object) -> None:
        """Be silent: what containerd asked for is in its log."""


def shell(busybox: Path) -> bytes:
    """A root with busybox and its names."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in FOLDERS:
            add(tar, folder, type=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        add(tar, "etc/passwd", f"user:x:{USER}:{USER}::/tmp:/bin/sh\n".encode())
        add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for name in sorted(set(listed) - {"busybox"}):
            tar.addfile(_link(f"bin/{name}", "busybox"))
    return out.getvalue()


def python(interpreter: Path) -> bytes:
    """The interpreter, the C libraries that it loads, and its library as far as that needs no others."""
    code = "import os; print(os.path.dirname(os.__file__))"
    found = subprocess.run([interpreter, "-IS", "-c", code], capture_output=True, text=True, check=True)
    library = found.stdout.strip()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for file in (str(interpreter), *libraries([str(interpreter)])):
            tar.add(file)
        tar.addfile(_link("usr/bin/python3", interpreter.name))
        tar.add(library, filter=lambda found: None if LEFT_OUT.fullmatch(Path(found.name).name) else found)
    return out.getvalue()


def libraries(programs: Sequence[str]) -> set[str]:
    """The C libraries that these programs and libraries load."""
    linked = subprocess.run(["/usr/bin/ldd", *programs], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/\S+) \(0x", linked))


def _link(name: str, to: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, to
    return info


def add(tar: tarfile.TarFile, name: str, content: bytes = b"", **fields: Any) -> None:
    """A member that belongs to root, the same each time."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    tar.addfile(info, io.BytesIO(content))


def _blob(folder: Path, media_type: str, content: bytes) -> Mapping[str, object]:
    digest = _digest(content)
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / digest).write_bytes(content)
    return {"mediaType": media_type, "size": len(content), "digest": digest}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
