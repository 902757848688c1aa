"""Which shares a back-end can give, and what it is told of one: the sentence where it cannot names field and fix."""

from dataclasses import dataclass

from gpushare.backends import mig
from gpushare.gpu import WHOLE, Enforcer, Share

PERCENT = WHOLE // 100  # milli-GPU
GUARANTEE, MEMORY = "resources.gpu_share.guarantee", "resources.gpu_share.memory"
ON_DEMAND = "on_demand"
LABELS = "resources.gpu_share"


@dataclass(frozen=True, slots=True)
class Device:
    """The GPUs of a node: model as labelled, and MiB of each."""

    model: str
    memory: int


@dataclass(frozen=True, slots=True)
class NotGiven:
    """A share that a back-end cannot give: the field that is in the way, and what to ask instead."""

    field: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Part:
    """What a back-end is told of a share: whole percent of a GPU, MiB, and the MIG profile where it is one."""

    percent: int
    memory: int
    profile: str = ""


def chooses_device(enforcer: Enforcer) -> bool:
    """Whether its software on the node chooses the device of a share; then Weft does not know which it is."""
    return enforcer in _CHOOSE


def part(enforcer: Enforcer, share: Share, device: Device) -> Part | NotGiven:
    """What `enforcer` is told of this share on such a device, or why it cannot give it."""
    if bool(share.on_demand) != (enforcer is Enforcer.ON_DEMAND):
        return _only_on_demand() if enforcer is Enforcer.ON_DEMAND else _not_on_demand(enforcer)
    if share.labels and enforcer in _CHOOSE:
        return NotGiven(
            LABELS,
            f"{_NAMES[enforcer]} chooses the GPU of a share by itself, so labels of shares do not hold there. "
            f"Ask for a share without affinity, anti_affinity and exclusion.",
        )
    if enforcer is Enforcer.MIG:
        return _instance(share, device)
    if enforcer in (Enforcer.MPS, Enforcer.HAMI, Enforcer.DRA):
        return _percent(enforcer, share)
    return Part(share.guarantee // PERCENT, share.most_memory)


def _not_on_demand(enforcer: Enforcer) -> NotGiven:
    return NotGiven(
        ON_DEMAND,
        f"on_demand needs a node where Weft's own back-end moves memory between GPUs, and shares are enforced by "
        f"{enforcer} here. Remove on_demand, or have a platform admin set nodes up for it (docs/notebooks.md).",
    )


def _only_on_demand() -> NotGiven:
    return NotGiven(
        LABELS,
        "Its nodes take notebooks with on_demand: true only, as these use all of their GPUs. Ask for a share of "
        "another pool, or for a notebook on demand.",
    )


def _percent(enforcer: Enforcer, share: Share) -> Part | NotGiven:
    """They count in whole percent, and need to be told how much memory: without it a share would have all."""
    name = _NAMES[enforcer]
    if share.guarantee % PERCENT:
        up = -(-share.guarantee // PERCENT) * PERCENT
        return NotGiven(
            GUARANTEE,
            f"{name} divides a GPU into whole percent, and the share asks for {share.guarantee / WHOLE:g}. "
            f"Ask for a guarantee of {up / WHOLE:g}.",
        )
    if not share.memory:
        return NotGiven(MEMORY, f"{name} holds a share to its memory, and it asks for none. Say how much it takes.")
    return Part(share.guarantee // PERCENT, share.memory)


def _instance(share: Share, device: Device) -> Part | NotGiven:
    made = mig.geometry(device.model, device.memory)
    if made is None:
        message = (
            f"A GPU {device.model} with {device.memory} MiB has no MIG that Weft knows. Ask for another GPU model."
        )
        return NotGiven("resources.gpu_model", message)
    profile = mig.profile_for(made, share, device.memory)
    if profile is None:
        _, most = mig.amounts(made, made.profiles[-1], device.memory)
        message = f"No MIG instance of {device.model} has {share.memory} MiB. Ask for at most {most}Mi, or a whole GPU."
        return NotGiven(MEMORY, message)
    if not mig.fills(made, profile, share, device.memory):
        up = rounded(share, device)
        return NotGiven(
            GUARANTEE,
            f"MIG gives whole instances; the smallest of {device.model} that holds the share is {profile.name}. "
            f"Ask for all of it: a guarantee of {up.guarantee / WHOLE:g} and {up.memory}Mi of memory.",
        )
    return Part(share.guarantee // PERCENT, share.memory, profile.name)


def rounded(share: Share, device: Device) -> Share:
    """The share rounded up to the MIG instance that holds it. Raises ValueError where none does."""
    made = mig.geometry(device.model, device.memory)
    profile = None if made is None else mig.profile_for(made, share, device.memory)
    if made is None or profile is None:
        raise ValueError(f"no MIG instance of {device.model} holds {share}")
    guarantee, memory = mig.amounts(made, profile, device.memory)
    return Share(guarantee, max(guarantee, share.limit), memory)


_NAMES = {Enforcer.MIG: "MIG", Enforcer.MPS: "MPS", Enforcer.HAMI: "HAMi", Enforcer.DRA: "The DRA driver"}
_CHOOSE = frozenset({Enforcer.MIG, Enforcer.MPS, Enforcer.DRA})  # their software on the node chooses a share's device
