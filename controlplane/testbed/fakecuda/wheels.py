"""Clients of the CUDA driver that are not ours: `python -m controlplane.testbed.fakecuda.wheels` fetches them.

The Python bindings and the real CUDA runtime, as wheels pinned by their hashes. The runtime runs on no fake driver: it
asks for proof that the driver is NVIDIA's, which nothing here forges. What it fetches until then can be seen.
"""

import sys
from pathlib import Path

from controlplane.testbed import golang
from controlplane.testbed.processes import HOW, MissingError

NAME = "CUDA-clients"
REQUIREMENTS = Path(__file__).resolve().parent / "wheels.txt"
FOLDER = "cuda-clients-12.9"


def find(*, fetch: bool = True) -> Path:
    """The folder with both, for Python's path. Raises MissingError."""
    if not fetch and not (golang.cache() / FOLDER).exists():
        raise MissingError(NAME, HOW)
    return golang.wheels(FOLDER, REQUIREMENTS, "the wheels of the CUDA clients could not be installed", NAME)


def runtime() -> Path:
    """The CUDA runtime's library. Raises MissingError."""
    return next((find() / "nvidia" / "cuda_runtime" / "lib").glob("libcudart.so*"))


if __name__ == "__main__":
    try:
        print(find())
    except MissingError as missing:
        sys.exit(str(missing))
