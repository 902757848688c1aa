"""Which shares a node has: a folder for each container, with a file that says what its share is.

Its folder `container` is mounted into the container and nowhere else, so that a process which connects to the socket
there belongs to that share, and needs to send no name. What the share is lies outside of what is mounted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpushare.gpu import Share

NAME = "share.json"
MOUNTED = "container"
MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Placed:
    """A share and the GPU that it lies on, as the node calls it.

    on_demand: between cells it may leave it; pod: the name of the pod whose container has it; empty: not said.
    """

    gpu: str
    share: Share
    on_demand: bool = False
    pod: str = ""


def read(folder: Path) -> Placed | None:
    """What the folder's file says; None: it has none yet. Raises ValueError with what is wrong with it."""
    path = folder / NAME
    try:
        found = json.loads(path.read_text())
        share = Share(int(found["guarantee"]), int(found["limit"]), int(found["memory"]))
        return Placed(str(found["gpu"]), share, bool(found.get("on_demand", False)), str(found.get("pod", "")))
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{path}: {error!r}") from error


def write(folder: Path, placed: Placed) -> None:
    """Make the folder say so. It is read whole or not at all."""
    (folder / MOUNTED).mkdir(parents=True, exist_ok=True)
    share = placed.share
    said: dict[str, object] = {"gpu": placed.gpu, "guarantee": share.guarantee, "limit": share.limit}
    said |= {"memory": share.memory} | ({"on_demand": True} if placed.on_demand else {})
    said |= {"pod": placed.pod} if placed.pod else {}
    draft = folder / f"{NAME}.draft"
    draft.write_text(json.dumps(said))
    draft.replace(folder / NAME)


def moved(folder: Path) -> dict[int, str]:
    """The GPU that each process of a share on demand was last moved to; one that never was is not named."""
    try:
        lines = (folder / MOVED).read_text().splitlines()
        return {int(pid): gpu for pid, gpu in (line.split() for line in lines)}
    except (OSError, ValueError):
        return {}


def note_moved(folder: Path, on: Mapping[int, str]) -> None:
    """Remember it for a daemon that comes after this one. Whose container goes has no folder any more."""
    if folder.is_dir():
        draft = folder / f"{MOVED}.draft"
        draft.write_text("".join(f"{pid} {gpu}\n" for pid, gpu in sorted(on.items())))
        draft.replace(folder / MOVED)
