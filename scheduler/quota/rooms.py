"""What quota allows, asked again and again by each step that tries a claimant."""

from collections.abc import Callable, Hashable

from scheduler.quota.tree import Usage


class RoomMemo:
    """What was found, as long as nothing held changes."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._known: dict[Hashable, int] = {}
        self._state = -1

    def of(self, asked: Hashable, find: Callable[[], int]) -> int:
        """The answer to what is asked, milli-GPU; `find` works it out."""
        if self._state != self._usage.state:
            self._known, self._state = {}, self._usage.state
        room = self._known.get(asked)
        if room is None:
            room = self._known[asked] = find()
        return room
