"""Images that are put together from this machine's own programs, as the files of a registry that only gives.

A folder `v2/NAME` holds manifests and blobs where the distribution API has them, so any server of files will do.
"""

import hashlib
import io
import json
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
# The sandbox holds a pod's namespaces and has nothing to do until it is killed.
FOR_EVER = ("/bin/tail", "-f", "/dev/null")


def write(registry: Path, busybox: Path) -> None:
    """The images `pause` and `shell`, both with all that busybox can be called by."""
    layer = _layer(busybox)
    image(registry, "pause", layer, FOR_EVER)
    image(registry, "shell", layer, ("/bin/sh",))


def image(registry: Path, name: str, layer: bytes, entrypoint: Sequence[str], **env: str) -> None:
    """An image of one layer with the tag `1`."""
    folder = registry / "v2" / name
    settings = {"User": f"{USER}:{USER}", "Entrypoint": entrypoint, "Env": [f"{k}={v}" for k, v in env.items()]}
    rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
    config = {"architecture": "amd64", "os": "linux", "config": settings, "rootfs": rootfs}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _blob(folder, CONFIG, json.dumps(config).encode()),
        "layers": [_blob(folder, LAYER, layer)],
    }
    text = json.dumps(manifest).encode()
    (folder / "manifests").mkdir()
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


def _layer(busybox: Path) -> bytes:
    """A root with busybox and its names."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in FOLDERS:
            _add(tar, folder, type=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        _add(tar, "etc/passwd", f"user:x:{USER}:{USER}::/tmp:/bin/sh\n".encode())
        _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
        for name in sorted(set(listed) - {"busybox"}):
            _add(tar, f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", **fields: Any) -> None:
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
