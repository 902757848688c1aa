"""Which devices placeholders hold, and on which ones shares lie, as the informer has it. No network, no clock."""

from controlplane.cluster.kubernetes.podstatus import Placeholder, Pod, Worker

Device = tuple[str, int]  # a node's name, and the number of a GPU there
Key = tuple[str, str]  # namespace and name of a pod


class Held:
    """Follows the store's pods. `idle` ones hold a device without shares; `unheld` devices have shares, no holder."""

    def __init__(self) -> None:
        self._placeholders: dict[Device, Placeholder] = {}
        self._shares: dict[Device, set[Key]] = {}
        self._on_node: dict[str, set[int]] = {}
        self.idle: dict[Device, Placeholder] = {}
        self.unheld: dict[Device, str] = {}  # with the "namespace/name" of one of the shares

    def link(self, key: Key, pod: Pod) -> None:
        """A pod is there."""
        if isinstance(pod, Placeholder):
            self._placeholders[pod.node, pod.gpu] = pod
            self._on_node.setdefault(pod.node, set()).add(pod.gpu)
        for device in _devices(pod):
            if isinstance(pod, Worker):
                self._shares.setdefault(device, set()).add(key)
            self._sort(device)

    def unlink(self, key: Key, pod: Pod | None) -> None:
        """A pod is no longer there, or no longer as it was."""
        if isinstance(pod, Placeholder):
            self._placeholders.pop((pod.node, pod.gpu), None)
            self._on_node.get(pod.node, set()).discard(pod.gpu)
        for device in _devices(pod):
            there = self._shares.get(device, set())
            there.discard(key)
            if not there:
                self._shares.pop(device, None)
            self._sort(device)

    def at(self, node: str, gpu: int) -> Placeholder | None:
        """What holds a device."""
        return self._placeholders.get((node, gpu))

    def on(self, node: str) -> set[int]:
        """The GPUs of a node that have a placeholder."""
        return self._on_node.get(node, set())

    def devices(self) -> frozenset[Device]:
        """All that are held."""
        return frozenset(device for device, holder in self._placeholders.items() if holder.holds)

    def _sort(self, device: Device) -> None:
        holder, shares = self._placeholders.get(device), self._shares.get(device)
        self.idle.pop(device, None)
        self.unheld.pop(device, None)
        if holder is not None and not shares and not holder.is_leaving:
            self.idle[device] = holder
        if shares and (holder is None or holder.is_leaving or not holder.holds):
            self.unheld[device] = "/".join(min(shares))


def _devices(pod: Pod | None) -> list[Device]:
    """The devices that a pod says something of: a placeholder's, and those of a share that is placed and not over."""
    if isinstance(pod, Placeholder):
        return [(pod.node, pod.gpu)]
    if isinstance(pod, Worker) and pod.has_share and not pod.enforcer and pod.is_placed and not pod.is_over:
        return [(pod.seen.node, gpu) for gpu in pod.devices]
    return []
