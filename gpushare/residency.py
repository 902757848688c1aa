"""Where the device memory of notebooks is: on GPUs of a node, or moved to its host memory.

A notebook on demand keeps its process. While no cell runs, the driver can move what it has on a GPU to host memory, and
back to any GPU of the node when its next cell begins. For that, each one books host memory on its node, wherever it is:
so one that has to leave a GPU can always do so. What computes is never moved. Memory in MiB, times in whole seconds
of one clock, which the caller reads.
Source: docs/algorithms.md#notebooks-on-demand.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Notebook:
    """memory: what it may have on a GPU, and books in host memory. since: it computes, or is idle, since then.

    is_fixed: the driver has refused to move it, so it stays on the GPU that it has.
    """

    name: str
    memory: int
    since: int
    computes: bool = False
    is_fixed: bool = False

    def __post_init__(self) -> None:
        if self.memory < 0:
            raise ValueError(f"{self.name}: memory is {self.memory} MiB, must be >= 0")


@dataclass(frozen=True, slots=True)
class Gpu:
    """memory: of the device, 0 if it is lost. residents: whose memory is on it, in the order in which they came."""

    memory: int
    residents: tuple[Notebook, ...] = ()

    @property
    def used(self) -> int:
        """MiB that its residents have."""
        return sum([one.memory for one in self.residents])

    @property
    def computing(self) -> tuple[Notebook, ...]:
        """Those whose cell runs."""
        return tuple([one for one in self.residents if one.computes])


@dataclass(frozen=True, slots=True)
class Node:
    """host_memory: what notebooks may book of it. offloaded: those whose memory is there and not on a GPU."""

    gpus: tuple[Gpu, ...]
    host_memory: int
    offloaded: tuple[Notebook, ...] = ()

    @property
    def notebooks(self) -> tuple[Notebook, ...]:
        """All that are on the node."""
        return (*(one for gpu in self.gpus for one in gpu.residents), *self.offloaded)

    @property
    def unbooked(self) -> int:
        """MiB of host memory that a further notebook may book."""
        return self.host_memory - sum([one.memory for one in self.notebooks])

    def find(self, name: str) -> tuple[int | None, Notebook]:
        """The index of its GPU, None where it is in host memory. Raises KeyError if it is not on the node."""
        for index, gpu in enumerate(self.gpus):
            for one in gpu.residents:
                if one.name == name:
                    return index, one
        for one in self.offloaded:
            if one.name == name:
                return None, one
        raise KeyError(name)


def enter(node: Node, notebook: Notebook) -> Node:
    """A notebook comes to the node, into its host memory. Raises ValueError where that cannot hold it as well."""
    if any(one.name == notebook.name for one in node.notebooks):
        raise ValueError(f"{notebook.name} is on the node already")
    if notebook.computes:
        raise ValueError(f"{notebook.name} computes; it cannot be moved")
    if notebook.memory > node.unbooked:
        raise ValueError(f"{notebook.name} books {notebook.memory} MiB of host memory, {node.unbooked} are left")
    return Node(node.gpus, node.host_memory, (*node.offloaded, notebook))


def leave(node: Node, name: str) -> Node:
    """It is not on the node any more, whatever it did: the inverse of `enter`. Raises KeyError."""
    index, notebook = node.find(name)
    if index is None:
        return Node(node.gpus, node.host_memory, _without(node.offloaded, name))
    return _with(node, index, _without(node.gpus[index].residents, notebook.name))


def begin(node: Node, name: str, gpu: int, at: int, evicted: Collection[str] = ()) -> Node:
    """Its cell begins on that GPU; the `evicted` leave that GPU for host memory first.

    Raises KeyError for one that is not there, ValueError for one that computes and where the memory does not hold it.
    """
    index, notebook = node.find(name)
    if notebook.computes:
        raise ValueError(f"{name} computes already")
    for one in evicted:
        node = offload(node, one, gpu)
    started = Notebook(name, notebook.memory, at, computes=True, is_fixed=notebook.is_fixed)
    if index not in (None, gpu) and notebook.is_fixed:
        raise ValueError(f"{name} cannot be moved: the driver has refused it")
    if index == gpu:
        return _with(node, gpu, tuple([started if one.name == name else one for one in node.gpus[gpu].residents]))
    node = leave(node, name)
    device = node.gpus[gpu]
    if device.used + notebook.memory > device.memory:
        raise ValueError(f"{name} needs {notebook.memory} MiB of GPU {gpu}, {device.memory - device.used} are free")
    return _with(node, gpu, (*device.residents, started))


def end(node: Node, name: str, at: int) -> Node:
    """Its cell ends; it stays where it is. Raises KeyError, ValueError if no cell of it runs."""
    index, notebook = node.find(name)
    if index is None or not notebook.computes:
        raise ValueError(f"{name} does not compute")
    idle = Notebook(name, notebook.memory, at, is_fixed=notebook.is_fixed)
    return _with(node, index, tuple([idle if one.name == name else one for one in node.gpus[index].residents]))


def offload(node: Node, name: str, gpu: int | None = None) -> Node:
    """Move its memory to host memory. gpu: where it has to be. Raises KeyError, ValueError if it computes."""
    index, notebook = node.find(name)
    if index is None or gpu not in (None, index):
        raise KeyError(f"{name} is not on GPU {gpu}")
    if notebook.computes or notebook.is_fixed:
        why = "computes" if notebook.computes else "is fixed"
        raise ValueError(f"{name} {why}; it cannot be moved")
    node = _with(node, index, _without(node.gpus[index].residents, name))
    return Node(node.gpus, node.host_memory, (*node.offloaded, notebook))


def fix(node: Node, name: str) -> Node:
    """The driver has refused to move it: from now on it stays where it is. Raises KeyError if it is on no GPU."""
    index, notebook = node.find(name)
    if index is None:
        raise KeyError(f"{name} is on no GPU")
    fixed = replace(notebook, is_fixed=True)
    return _with(node, index, tuple(fixed if one.name == name else one for one in node.gpus[index].residents))


def _with(node: Node, gpu: int, residents: tuple[Notebook, ...]) -> Node:
    changed = Gpu(node.gpus[gpu].memory, residents)
    return Node((*node.gpus[:gpu], changed, *node.gpus[gpu + 1 :]), node.host_memory, node.offloaded)


def _without(some: tuple[Notebook, ...], name: str) -> tuple[Notebook, ...]:
    return tuple([one for one in some if one.name != name])
