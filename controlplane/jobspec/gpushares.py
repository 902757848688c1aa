"""A share of a GPU as a part of the job file: its size, and the labels by which it lies beside others or alone."""

from collections.abc import Mapping
from typing import Any

from controlplane.jobspec import quantities
from controlplane.jobspec.shapes import REQUIRED, Field, Quantity, Record, Shape, Text
from gpushare.gpu import Labels, Share

LABEL_TEXT = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
LABEL_FIX = "Use letters, digits, `.`, _ and -, beginning and ending with a letter or digit."


def memory(example: str) -> Shape:
    """An amount of memory, in MiB."""
    return Quantity(quantities.memory_mib, 1, 2**30, f'"{example}"', ("1Mi", "1024Ti"))


def _share(example: str) -> Shape:
    return Quantity(quantities.milli, 1, 1000, example, ("0.001", "1"), takes_numbers=True, takes_text=False)


OF_SHARE = (
    Field("guarantee", _share("0.3"), "The part of one GPU it always gets, such as 0.3.", REQUIRED),
    Field("limit", _share("1.0"), "What it may use while the GPU is otherwise idle; the guarantee if absent."),
    Field("memory", memory("10Gi"), "GPU memory, such as 10Gi.", REQUIRED),
)
SHARE_LABEL = Text(63, LABEL_TEXT, LABEL_FIX)
SHARE_LABELS = (
    Field("affinity", SHARE_LABEL, "A label: all shares of the team with it lie on one GPU, or wait for room there."),
    Field("anti_affinity", SHARE_LABEL, "A label: no two shares of the team with it lie on one GPU."),
    Field("exclusion", SHARE_LABEL, "A label: on its GPU lie only shares of the team with the same one."),
)
_NOT_RAISED = {"max_limit": "Only a service's limit is raised. Set limit to it, or remove it."}
_NO_LABEL = dict.fromkeys(
    (field.name for field in SHARE_LABELS), "A role has no labels, nor have the workers beside one. Remove it."
)
GPU_SHARE = Record((*OF_SHARE, *SHARE_LABELS), _NOT_RAISED)
SHARE_OF_ROLE = Record(OF_SHARE, _NOT_RAISED | _NO_LABEL)
SHARE_OF_SERVICE = Record(
    (
        *OF_SHARE,
        *SHARE_LABELS,
        Field("max_limit", _share("1.0"), "Up to what limit is raised before another replica starts; limit if absent."),
    )
)


def share_of(values: Mapping[str, Any], *, on_demand: bool = False) -> Share:
    """The share that a job file's values ask for; one of a role's has no labels, nor has one on demand."""
    if on_demand:
        return Share(values["guarantee"], values["limit"] or values["guarantee"], 0, on_demand=values["memory"])
    labels = Labels(*(values.get(label.name) or "" for label in SHARE_LABELS))
    return Share(values["guarantee"], values["limit"] or values["guarantee"], values["memory"], labels)
