"""Multi-Instance GPU: which instances a GPU can have, where they may lie, and which one a share is.

A GPU has memory slices side by side, and an instance of a profile takes a run of them that begins at certain ones
only, with a number of compute slices. Source: NVIDIA's MIG user guide, "Supported MIG profiles" and the output of
`nvidia-smi mig -lgip` and `-lgipp` shown there. Profiles with media extensions (+me) are left out: there is one each.
"""

import re
from dataclasses import dataclass, replace

from gpushare.gpu import WHOLE, Share

KEPT = 20  # one part in so many of a slice's memory is the driver's: 0.25 of 10 GiB on an H100


@dataclass(frozen=True, slots=True)
class Profile:
    """One size of instance: compute and memory slices, and the memory slices at which it may begin."""

    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
    """What one model of GPU can be divided into: its slices, and its profiles from the smallest on."""

    compute: int
    memory: int
    profiles: tuple[Profile, ...]

    def profile(self, name: str) -> Profile:
        """The profile of this name. Raises KeyError."""
        return {one.name: one for one in self.profiles}[name]


@dataclass(frozen=True, slots=True)
class Instance:
    """A profile at the memory slice where it begins."""

    profile: Profile
    start: int

    @property
    def slices(self) -> range:
        """The memory slices that it takes."""
        return range(self.start, self.start + self.profile.memory)


@dataclass(frozen=True, slots=True)
class Layout:
    """The instances that one GPU has, by where they begin. Two that were reached in other orders are equal."""

    geometry: Geometry
    instances: tuple[Instance, ...] = ()

    @property
    def is_legal(self) -> bool:
        """Whether the driver would have all of them beside each other."""
        taken = [slot for one in self.instances for slot in one.slices]
        return (
            len(taken) == len(set(taken))
            and all(one.start in one.profile.starts for one in self.instances)
            and sum(one.profile.compute for one in self.instances) <= self.geometry.compute
        )

    def acquire(self, profile: Profile) -> tuple["Layout", Instance] | None:
        """The layout with one more instance, and that instance; None where it has no legal place.

        Of several places that one is taken which leaves most for others: the sum over all profiles of the places at
        which they could still begin, by their size.
        """
        found = [self._with(Instance(profile, start)) for start in profile.starts]
        legal = [(one, new) for one, new in found if one.is_legal]
        if not legal:
            return None
        layout, new = max(legal, key=lambda pair: (pair[0]._room(), -pair[1].start))
        return layout, new

    def release(self, instance: Instance) -> "Layout":
        """The layout without this instance: the exact inverse of `acquire`. Raises ValueError if it is not there."""
        if instance not in self.instances:
            raise ValueError(f"{instance.profile.name} at {instance.start} is not there")
        return replace(self, instances=tuple(one for one in self.instances if one != instance))

    def _with(self, new: Instance) -> tuple["Layout", Instance]:
        every = sorted((*self.instances, new), key=lambda one: one.start)
        return replace(self, instances=tuple(every)), new

    def _room(self) -> int:
        found = 0
        for profile in self.geometry.profiles:
            for start in profile.starts:
                found += profile.memory * self._with(Instance(profile, start))[0].is_legal
        return found


def geometry(model: str, memory: int) -> Geometry | None:
    """How a GPU of this model (as labelled) with so many MiB divides; None: it has no MIG, or is not known here."""
    words = set(re.split(r"[^A-Z0-9]+", model.upper()))
    if words & {"A30"}:
        return _FOUR
    if not words & _SEVENTHS:
        return None
    size = min(_SIZES, key=lambda known: abs(known * 1024 - memory))
    return _seven(*_SIZES[size]) if abs(size * 1024 - memory) * 10 <= size * 1024 else None


def amounts(made: Geometry, profile: Profile, memory: int) -> tuple[int, int]:
    """Milli-GPU and MiB that an instance gives, of a GPU with so many MiB.

    The first is rounded down, so that all the instances that fit together are at most one GPU.
    """
    given = memory * profile.memory // made.memory
    return WHOLE * profile.compute // made.compute, given - given // KEPT


def profile_for(made: Geometry, share: Share, memory: int) -> Profile | None:
    """The smallest profile that gives all of a share on a GPU with so many MiB: the share rounded up."""
    enough = []
    for one in made.profiles:
        milli, mib = amounts(made, one, memory)
        if milli >= share.guarantee and mib >= share.memory:
            enough.append(one)
    return min(enough, key=lambda one: (one.memory, one.compute), default=None)


def fills(made: Geometry, profile: Profile, share: Share, memory: int) -> bool:
    """Whether a share asks so nearly all of an instance that counting shares counts instances.

    Then shares that fit a GPU by guarantee and memory are instances that fit it: n + 1 parts of more than 1 / (n + 1)
    do not fit one whole. A smaller one would be counted as less than it takes.
    """
    return (
        share.guarantee * (made.compute + 1) > WHOLE * profile.compute
        and share.memory * (made.memory + 1) > memory * profile.memory
    )


def _seven(one: int, two: int, half: int, all_of_it: int) -> Geometry:
    """GPUs of seven compute and eight memory slices; the numbers are the GB in the profiles' names."""
    return Geometry(
        7,
        8,
        (
            Profile(f"1g.{one}gb", 1, 1, (0, 1, 2, 3, 4, 5, 6)),
            Profile(f"1g.{two}gb", 1, 2, (0, 2, 4, 6)),
            Profile(f"2g.{two}gb", 2, 2, (0, 2, 4)),
            Profile(f"3g.{half}gb", 3, 4, (0, 4)),
            Profile(f"4g.{half}gb", 4, 4, (0,)),
            Profile(f"7g.{all_of_it}gb", 7, 8, (0,)),
        ),
    )


_FOUR = Geometry(
    4,
    4,
    (
        Profile("1g.6gb", 1, 1, (0, 1, 2, 3)),
        Profile("2g.12gb", 2, 2, (0, 2)),
        Profile("4g.24gb", 4, 4, (0,)),
    ),
)
_SEVENTHS = {"A100", "A800", "H100", "H800", "H200", "GH200", "B200", "GB200", "B300", "GB300"}
_SIZES = {  # GB of the GPU -> the numbers in its profiles' names
    40: (5, 10, 20, 40),
    80: (10, 20, 40, 80),
    94: (12, 24, 47, 94),
    96: (12, 24, 48, 96),
    141: (18, 35, 71, 141),
    180: (23, 45, 90, 180),
    269: (34, 67, 135, 269),
}
