"""The page of a share: a file that says how much memory each of its processes has (library/page.c has the same form).

The processes count by themselves, under locks of the file; the daemon makes the page, writes the limit, and takes off
what dead processes had.
"""

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from gpushare.gpu import Share

NAME = "page"
MAGIC, VERSION, SLOTS = 0x74667765, 1, 256  # SLOTS: processes of a share at once
MIB = 1 << 20
_HEAD = struct.Struct("<IIQIIQ")  # magic, version, limit in bytes, guarantee, most in milli-GPU, 1: it is on demand
_SLOT = struct.Struct("<QQQII")  # bytes now, at most, times refused, mode, process in its own namespace
LENGTH = _HEAD.size + SLOTS * _SLOT.size
LOCKS = 1 << 20  # byte of the lock under which sums are made; a slot's own follow it
ENFORCED, ADVISORY = 1, 2


@dataclass(frozen=True, slots=True)
class Slot:
    """What a living process of the share has. is_advisory: its time is not held to the share, for want of a daemon."""

    number: int
    used: int  # bytes
    most: int
    refused: int
    is_advisory: bool
    process: int  # as the container numbers it


class Page:
    """One, open. Close it after use. It is read and written, not mapped: a container may cut the file short."""

    def __init__(self, folder: Path, share: Share, *, on_demand: bool = False) -> None:
        """Make it, or go on with the one that is there. Raises OSError."""
        self._file, self._on_demand = _opened(folder / NAME), on_demand
        self.set(share)

    def close(self) -> None:
        """The file stays."""
        os.close(self._file)

    def set(self, share: Share) -> None:
        """What may be had from now on. What is had already stays, also above it."""
        head = _HEAD.pack(MAGIC, VERSION, share.memory * MIB, share.guarantee, share.limit, self._on_demand)
        os.pwrite(self._file, head, 0)

    def slots(self) -> tuple[Slot, ...]:
        """Those of living processes."""
        return _slots(os.pread(self._file, LENGTH, 0))

    def clear_dead(self) -> None:
        """Empty the slots of dead processes: those that no process has locked."""
        for slot in self.slots():
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, LOCKS + 1 + slot.number)
            except OSError:
                continue
            self.write(slot.number, 0, 0)
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, LOCKS + 1 + slot.number)

    def write(self, number: int, used: int, process: int) -> None:
        """What a slot says. The process that it is of writes it otherwise."""
        os.pwrite(self._file, _SLOT.pack(used, used, 0, 0, process), _HEAD.size + number * _SLOT.size)


def seen(folder: Path) -> tuple[Slot, ...]:
    """The slots of a page that another process keeps. Raises OSError."""
    return _slots((folder / NAME).read_bytes())


def _slots(data: bytes) -> tuple[Slot, ...]:
    whole = data[_HEAD.size : _HEAD.size + (len(data) - _HEAD.size) // _SLOT.size * _SLOT.size]
    return tuple(
        Slot(number, used, most, refused, mode == ADVISORY, process)
        for number, (used, most, refused, mode, process) in enumerate(_SLOT.iter_unpack(whole))
        if process
    )


def _opened(path: Path) -> int:
    """All users of the container may write it, as the socket beside it."""
    made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    os.fchmod(made, 0o666)
    if os.fstat(made).st_size != LENGTH:
        os.ftruncate(made, LENGTH)
    return made
