"""HAMi's annotations read by their documented form ("Protocol design" of Project-HAMi/HAMi), apart from ours."""

from typing import NamedTuple


class Part(NamedTuple):
    """A part of one device that a container has: MiB and percent."""

    device: str
    kind: str
    memory: int
    cores: int


def containers(text: str) -> list[list[Part]]:
    """The devices of each container: `;` ends a container, `:` a device, `,` is between its four fields."""
    assert text.endswith(";")
    found = []
    for container in text[:-1].split(";"):
        assert container.endswith(":") or not container
        fields = [device.split(",") for device in container.split(":") if device]
        assert all(len(one) == 4 for one in fields)
        found.append([Part(device, kind, int(memory), int(cores)) for device, kind, memory, cores in fields])
    return found
