"""Rules between fields, in CEL, which the API server evaluates: the same as in jobspec/jobrules.py, with the same fix.

What CEL cannot say (quantities, names of variables, what other rows allow) is left to the webhook and to conditions.
"""

from collections.abc import Collection

from controlplane.jobspec import jobfile
from controlplane.jobspec.shapes import REQUIRED, Field
from controlplane.jobspec.spec import OF_SERVICES
from controlplane.kubeobjects.names import camel
from scheduler.model.workload import MAIN_ROLE, Kind

Rule = dict[str, str]

_LATER = "cannot change after the submission. Delete this object and apply another one."
# Fields of one text, number or list of texts: equal means the same here as in a job file.
FIXED = ("type", "image", "command", "args", "env", "working_dir", "run_as_user", "framework", "retries", "port")


def between(fields: Collection[str]) -> list[Rule]:
    """The rules of the record that has these fields."""
    return [rule for needed, found in _BETWEEN for rule in found if needed <= set(fields)]


def of_kinds() -> list[Rule]:
    """What each type must have, and may not have."""
    kinds = {kind: {f.name: f for f in jobfile.OWN[kind]} for kind in Kind}
    found: list[Rule] = []
    for name in dict.fromkeys(name for fields in kinds.values() for name in fields):
        having = [kind for kind in Kind if name in kinds[kind]]
        if len(having) < len(Kind):
            types = ", ".join(f"'{kind.value}'" for kind in having)
            message = f"{name} belongs to {' and '.join(having)}. Remove it, or change type."
            found.append(_rule(f"self.type in [{types}] || !has(self.{camel(name)})", message, name))
        elif needing := [kind.value for kind in having if _is_required(kinds[kind][name])]:
            types = ", ".join(f"'{kind}'" for kind in needing)
            message = f"{name} is missing. Add it: {kinds[Kind(needing[0])][name].about.lower()}"
            found.append(_rule(f"!(self.type in [{types}]) || has(self.{camel(name)})", message))
    return found


def of_changes() -> list[Rule]:
    """What stays as it was submitted; of the whole object, as its status says whether anything was."""
    return list(map(_fixed, FIXED))


def _is_required(field: Field) -> bool:
    return field.default is REQUIRED


def _fixed(name: str) -> Rule:
    at = camel(name)
    was_submitted = "has(self.status) && has(self.status.phase)"
    both = f"has(self.spec.{at}) && has(oldSelf.spec.{at})"
    rule = f"!({was_submitted} && {both}) || self.spec.{at} == oldSelf.spec.{at}"
    if name in OF_SERVICES:
        rule = f"self.spec.type == '{Kind.INFERENCE.value}' || {rule}"
    return {"rule": rule, "message": f"{name} {_LATER}", "fieldPath": f".spec.{at}"}


def _rule(rule: str, message: str, field: str = "") -> Rule:
    return {"rule": rule, "message": message} | ({"fieldPath": f".{camel(field)}"} if field else {})


def _at_most(low: str, high: str) -> Rule:
    message = f"{low} is greater than {high}. Set {low} to at most {high}."
    return _rule(f"!has(self.{camel(low)}) || !has(self.{camel(high)}) || self.{camel(low)} <= self.{camel(high)}",
                 message, low)  # fmt: skip


_BETWEEN: tuple[tuple[frozenset[str], tuple[Rule, ...]], ...] = (
    (
        frozenset({"gpus", "gpu_share"}),
        (
            _rule(
                "!(has(self.gpus) && has(self.gpuShare))",
                "gpu_share and gpus are both given. Keep gpus for whole GPUs, or gpu_share for a part.",
                "gpu_share",
            ),
        ),
    ),
    (frozenset({"guarantee", "limit"}), (_at_most("guarantee", "limit"),)),
    (frozenset({"limit", "max_limit"}), (_at_most("limit", "max_limit"),)),
    (frozenset({"min", "max"}), (_at_most("min", "max"),)),
    (frozenset({"count", "min"}), (_at_most("min", "count"),)),
    (frozenset({"count", "max"}), (_at_most("count", "max"),)),
    (
        frozenset({"claim", "scratch"}),
        (
            _rule(
                "has(self.claim) != has(self.scratch)",
                "Give claim: NAME for a volume of the team, or scratch: 50Gi for empty space, and not both.",
            ),
        ),
    ),
    (
        frozenset({"name", "count", "resources"}),
        (_rule(f"self.name != '{MAIN_ROLE}'", f"The workers are called {MAIN_ROLE}. Choose another name.", "name"),),
    ),
)
