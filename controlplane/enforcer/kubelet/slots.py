"""The slots of a node: each is for one container with a share, which finds its folder in place without asking for it.

The kubelet says which slot a container gets, and not whose container that is: so the slot's folder is made and mounted
first, empty, and becomes that of a share once it is known which pod has the slot. A folder is for one pod only; the
next pod with the same slot gets another. All that is known lies in the folders, so a restart forgets nothing.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.enforcer import shares
from controlplane.enforcer.shares import Placed

PREFIX = "share"
_FOLDER = re.compile(rf"{PREFIX}-(\d{{1,5}})-(\d{{1,15}})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Folder:
    """One of a slot's. number: of the slot; turn: milliseconds, of two of them the newer one has the larger."""

    number: int
    turn: int
    path: Path

    @property
    def placed(self) -> Placed | None:
        """What it is of; None: its pod is not known yet. Raises ValueError."""
        return shares.read(self.path)


class Slots:
    """All of them, below one folder that the daemon serves."""

    def __init__(self, root: Path, count: int, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.root, self.count, self._now = root, count, now

    @property
    def names(self) -> list[str]:
        """As the kubelet knows them."""
        return [f"{PREFIX}-{number}" for number in range(self.count)]

    def mounted(self, name: str) -> Path:
        """What is mounted into a container that is given this slot. Containers of one pod get the same.

        Raises ValueError for a name that is none.
        """
        if name not in self.names:
            raise ValueError(f"{name} is no slot of this node")
        number = int(name.rpartition("-")[2])
        found = _newest(self._all()).get(number)
        if found is None or found.placed is not None:
            turn = max(self._now(), 0 if found is None else found.turn + 1)
            found = Folder(number, turn, self.root / f"{name}-{turn}")
        mounted = found.path / shares.MOUNTED
        mounted.mkdir(parents=True, exist_ok=True)
        return mounted

    def follow(self, pods: Mapping[str, Placed | None]) -> bool:
        """Make the folders those of these pods' shares, and take away those of pods that are gone.

        pods: of each slot that the kubelet says is held, the share; None: it is not known yet. Returns whether all are
        known. A folder that another pod had is not given to this one.
        """
        folders, is_whole = self._all(), True
        newest = _newest(folders)
        for folder in folders:
            name = f"{PREFIX}-{folder.number}"
            was, share = folder.placed, pods.get(name)
            if folder != newest[folder.number] or (was is not None and name not in pods):
                shutil.rmtree(folder.path, ignore_errors=True)
            elif share is None:
                is_whole = is_whole and name not in pods
            elif was is None or (was.pod == share.pod and was != share):
                shares.write(folder.path, share)
        return is_whole

    def _all(self) -> list[Folder]:
        """By slot and turn."""
        found = []
        for path in self.root.iterdir() if self.root.is_dir() else ():
            if matched := _FOLDER.fullmatch(path.name):
                found.append(Folder(int(matched[1]), int(matched[2]), path))
        return sorted(found, key=lambda one: (one.number, one.turn))


def _newest(folders: Iterable[Folder]) -> dict[int, Folder]:
    """Of each slot. folders: by slot and turn."""
    return {one.number: one for one in folders}
