"""JupyterLab as an image of a real node: `python -m controlplane.testbed.realnode.jupyter` fetches it.

The wheels are those of Debian's interpreter, which is the image's, whatever this one is.
"""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

from controlplane.testbed import golang
from controlplane.testbed.processes import HOW, MissingError
from controlplane.testbed.realnode import images, ourimage, programs

NAME = "JupyterLab"  # as scripts/get knows it
IMAGE = "jupyterlab"
REQUIREMENTS = Path(__file__).resolve().parent / "jupyter.txt"
LIBRARY = "opt/jupyter"  # in the image
WORK = "/home/work"  # where a notebook's volume is mounted
PORT = 8888  # as the image that a job file has by default


def find(*, fetch: bool = True) -> Path:
    """The folder with its packages. Raises MissingError."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    asked = [str(programs.find_python()), "-IS", "-c", code]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    name = f"jupyterlab-4.6-{version}"
    if not fetch and not (golang.cache() / name).exists():
        raise MissingError(NAME, HOW)
    options = ("--python-version", version, "--implementation", "cp", "--only-binary", ":all:")
    return golang.wheels(name, REQUIREMENTS, "the wheels of JupyterLab could not be installed", NAME, options)


def write(registry: Path) -> None:
    """The image `jupyterlab` with tag `1`, which serves its working folder on port 8888. Raises MissingError."""
    interpreter = programs.find_python()
    layers = [images.shell(programs.find("busybox")), images.python(interpreter), ourimage.base(interpreter)]
    # Its token is the pod's JUPYTER_TOKEN, as in the image that a job file has by default.
    command = ("-m", "jupyterlab", "--ip=0.0.0.0", f"--port={PORT}", "--no-browser")
    settings = {
        "Env": ["PATH=/usr/bin:/bin", f"PYTHONPATH=/{LIBRARY}", "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1"],
        "WorkingDir": WORK,
        "Cmd": list(command),
    }
    images.image(registry, IMAGE, [*layers, _packages(find())], (str(interpreter),), settings)


def _packages(folder: Path) -> bytes:
    """The packages, and the folder of the volume."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        images.add(tar, WORK.lstrip("/"), type=tarfile.DIRTYPE, mode=0o777)
        tar.add(folder, LIBRARY, filter=_root)
    return out.getvalue()


def _root(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """As root's, without what Python makes by itself."""
    if "__pycache__" in info.name:
        return None
    info.uid = info.gid = 0
    return info


if __name__ == "__main__":
    try:
        print(find())
    except MissingError as missing:
        sys.exit(str(missing))
