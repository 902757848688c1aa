"""Rules between the fields of a job file: what one field allows of another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from controlplane.jobspec import batch, objective, profile, scaling
from controlplane.jobspec.gpushares import SHARE_LABELS
from controlplane.jobspec.shapes import BAD, Faults
from gpushare.gpu import WHOLE
from scheduler.model.workload import MAIN_ROLE, Level

MAX_TENSORFLOW = 1000
PROMOTED = 100  # percent of the requests: no canary


def check(values: Mapping[str, Any], faults: Faults) -> None:
    """Note what is wrong between the fields of a file that has been read; parts that could not be read are BAD."""
    for rule in (
        _resources,
        _labels,
        _on_demand,
        _gang,
        _roles,
        _topology,
        _times,
        _names,
        _volumes,
        _framework,
        _standby,
        _raised,
        _zero,
        _steps,
    ):
        rule(values, faults)
    objective.check(values, faults)
    profile.check(values, faults)
    scaling.check(values, faults)
    batch.check(values, faults)


def _resources(values: Mapping[str, Any], faults: Faults) -> None:
    _asked(values["resources"], "resources", faults)


def _asked(asked: Any, at: str, faults: Faults) -> None:
    """Note what is wrong between what one member asks; at: the dotted name of its resources."""
    if asked is BAD:
        return
    gpus, share = asked["gpus"], asked["gpu_share"]
    if gpus is not None and share is not None:
        faults.add(
            f"{at}.gpu_share",
            f"{at}.gpu_share and {at}.gpus are both given. Keep gpus for whole GPUs, or gpu_share for a part.",
        )
    for name, needed in (("gpu_model", gpus or share), ("gpu_memory", gpus)):
        if asked[name] and not needed and BAD not in (gpus, share):
            fix = "Use gpu_share.memory." if share else "Add gpus, or remove it."
            faults.add(f"{at}.{name}", f"{at}.{name} is given, but no {_whole(name)} is asked for. {fix}")
    _at_most(asked, "shared_memory", "memory", at, faults)
    if share not in (None, BAD):
        _at_most(share, "guarantee", "limit", f"{at}.gpu_share", faults, _part)


def _labels(values: Mapping[str, Any], faults: Faults) -> None:
    """Shares that go together or apart are of one kind, and are not spread as well where all go on one GPU."""
    asked, at = values["resources"], "resources.gpu_share"
    share = None if asked is BAD else asked["gpu_share"]
    given = [] if share in (None, BAD) else [one.name for one in SHARE_LABELS if share.get(one.name) not in (None, BAD)]
    for name in given if values.get("roles") else ():
        faults.add(f"{at}.{name}", f"{at}.{name} is given, but there are roles. Remove {name}, or roles.")
    replicas = values.get("replicas")
    spread = None if replicas in (None, BAD) else replicas["spread"]
    if "affinity" in given and spread not in (None, BAD, scaling.PACK):
        what = f"{at}.affinity puts all replicas on one GPU, but replicas.spread is {spread}."
        faults.add(f"{at}.affinity", f"{what} Remove one of the two.")


def _on_demand(values: Mapping[str, Any], faults: Faults) -> None:
    """What has a GPU only while a cell runs asks for a share, and lies beside nothing in particular."""
    asked = values["resources"]
    if values.get("on_demand") is not True or asked is BAD or (share := asked["gpu_share"]) is BAD:
        return
    if share is None:
        text = "on_demand is given, but no share of a GPU is asked for. Write resources: {gpu_share: ..}, or remove it."
        faults.add("on_demand", text)
        return
    for name in (one.name for one in SHARE_LABELS if share.get(one.name) not in (None, BAD)):
        at = f"resources.gpu_share.{name}"
        faults.add(at, f"{at} is given, but with on_demand it goes to any GPU of its node. Remove one of the two.")


def _whole(name: str) -> str:
    return "GPU" if name == "gpu_model" else "whole GPU"


def _gang(values: Mapping[str, Any], faults: Faults) -> None:
    for name in ("workers", "replicas"):
        gang = values.get(name)
        if gang in (None, BAD):
            continue
        _at_most(gang, "min", "max", name, faults)
        if "count" in gang:
            _at_most(gang, "min", "count", name, faults)
            _at_most(gang, "count", "max", name, faults)


def _roles(values: Mapping[str, Any], faults: Faults) -> None:
    """Each role has a name of its own, and one GPU model may be used by all members that ask GPUs."""
    given = values.get("roles")
    if given in (None, BAD):
        return
    for number, role in enumerate(given):
        _asked(role["resources"], f"roles.{number}.resources", faults)
        if role["name"] == MAIN_ROLE:
            at = f"roles.{number}.name"
            faults.add(at, f"{at} is {MAIN_ROLE}, which the workers are called. Choose another name.")
    _unique([(f"roles.{number}.name", role["name"]) for number, role in enumerate(given)], "is a role twice", faults)
    _common_model(values, given, faults)


def _common_model(values: Mapping[str, Any], given: Sequence[Mapping[str, Any]], faults: Faults) -> None:
    asked = [("resources", values["resources"])]
    asked += [(f"roles.{number}.resources", role["resources"]) for number, role in enumerate(given)]
    allowed: set[str] | None = None
    for at, one in asked:
        models = None if one is BAD else one["gpu_model"]
        if models in (None, BAD):
            continue
        allowed = set(models) if allowed is None else allowed & set(models)
        if not allowed:
            text = f"{at}.gpu_model is {', '.join(models)}, but other roles of the gang allow none of these."
            faults.add(f"{at}.gpu_model", f"{text} Name a model that all allow: its GPUs are of one model.")
            return


def _at_most(
    values: Mapping[str, Any], low: str, high: str, at: str, faults: Faults, show: Callable[[Any], str] = str
) -> None:
    """Note a fault when the field `low` is greater than the field `high`; both are of the record `at`."""
    a, b = values[low], values[high]
    if a in (None, BAD) or b in (None, BAD) or a <= b:
        return
    dotted = f"{at}." if at else ""
    faults.add(
        f"{dotted}{low}",
        f"{dotted}{low} is {show(a)} but {dotted}{high} is {show(b)}. Set {low} to at most {show(b)}.",
    )


def _part(milli: int) -> str:
    return f"{milli / WHOLE:g}"


def _topology(values: Mapping[str, Any], faults: Faults) -> None:
    topology = values["topology"]
    if topology in (None, BAD):
        return
    require, prefer = topology["require"], topology["prefer"]
    if require in (None, BAD) or prefer in (None, BAD) or Level[prefer.upper()] <= Level[require.upper()]:
        return
    faults.add(
        "topology.prefer",
        f"topology.prefer is {prefer}, which is wider than topology.require, {require}. Prefer something tighter.",
    )


def _times(values: Mapping[str, Any], faults: Faults) -> None:
    _at_most({"expected_duration": None, **values}, "expected_duration", "max_duration", "", faults, _seconds)


def _seconds(value: float) -> str:
    return f"{value:g}s"


def _names(values: Mapping[str, Any], faults: Faults) -> None:
    names = [one["name"] for one in values["after"] or ()] if values["after"] is not BAD else []
    if values["name"] in names:
        faults.add("after", f"after names {values['name']} itself. Remove it.")
    twice = next((name for name in names if names.count(name) > 1 and name is not BAD), None)
    if twice is not None:
        faults.add("after", f"after names {twice} twice. Keep one.")
    variables = list(values["env"] or {}) if values["env"] is not BAD else []
    secrets = values["secrets"] if values["secrets"] not in (None, BAD) else ()
    of_secrets = [(f"secrets.{i}.env", s["env"]) for i, s in enumerate(secrets)]
    _unique([*(("env", v) for v in variables), *of_secrets], "is set twice", faults)
    roles = values.get("roles")
    for number, role in enumerate(roles if roles not in (None, BAD) else ()):
        own = list(role["env"] or {}) if role["env"] is not BAD else []
        _unique([*of_secrets, *((f"roles.{number}.env", v) for v in own)], "is set twice", faults)


def _volumes(values: Mapping[str, Any], faults: Faults) -> None:
    volumes = values["volumes"] if values["volumes"] not in (None, BAD) else ()
    for i, volume in enumerate(volumes):
        at, has = f"volumes.{i}", [name for name in ("claim", "scratch") if volume[name] is not None]
        if len(has) != 1:
            problem = f"{at} has both claim and scratch" if has else f"{at} has neither claim nor scratch"
            faults.add(at, f"{problem}. Give claim: NAME for a volume of the team, or scratch: 50Gi for empty space.")
        elif has == ["scratch"] and volume["read_only"] is True:
            faults.add(f"{at}.read_only", f"{at} is scratch space, which begins empty. Remove read_only.")
    _unique([(f"volumes.{i}.path", v["path"]) for i, v in enumerate(volumes)], "is mounted twice", faults)


def _framework(values: Mapping[str, Any], faults: Faults) -> None:
    """TF_CONFIG names every worker to every worker, and one variable holds 128 KiB."""
    workers = values.get("workers")
    most = (workers["max"] or workers["count"]) if workers not in (None, BAD) else 0
    roles = values.get("roles")
    counts = [role["count"] for role in roles] if roles not in (None, BAD) else []
    if most is not BAD and BAD not in counts:
        most += sum(counts)
    if values.get("framework") == "tensorflow" and most is not BAD and most > MAX_TENSORFLOW:
        fix = f"Set it to at most {MAX_TENSORFLOW}, or remove framework."
        faults.add("workers.max", f"workers.max is {most}, but TF_CONFIG has no room for so many. {fix}")


def _standby(values: Mapping[str, Any], faults: Faults) -> None:
    """Replicas sleep and wake by the objective, and their GPUs are lent by what their model leaves of the memory."""
    given, asked = values.get("standby"), values["resources"]
    if given in (None, BAD, 0) or asked is BAD or values["objective"] is BAD:
        return
    if values["objective"] is None:
        faults.add("standby", f"standby is {given}, but there is no objective to wake replicas by. Add objective.")
    share = asked["gpu_share"]
    if share is not BAD and (share is None or share["guarantee"] not in (WHOLE, BAD)):
        what = f"standby is {given}, but it is not known how much of a GPU its model takes."
        fix = "Ask for resources: {gpu_share: {guarantee: 1, memory: 20Gi}}, a whole GPU with the memory of the model."
        faults.add("standby", f"{what} {fix}")


def _raised(values: Mapping[str, Any], faults: Faults) -> None:
    """The limit of a service's replicas is raised by the law of replicas, which needs an objective."""
    asked, at = values["resources"], "resources.gpu_share"
    share = None if asked is BAD else asked["gpu_share"]
    if share in (None, BAD) or share.get("max_limit") in (None, BAD):
        return
    if values["objective"] is None:
        what = f"{at}.max_limit is {_part(share['max_limit'])}, but there is no objective to raise the limit by."
        faults.add(f"{at}.max_limit", f"{what} Add objective, such as {{p95_latency: 500ms}}.")
    low = share["limit"] if share["limit"] is not None else share["guarantee"]
    _at_most({**share, "limit": low}, "limit", "max_limit", at, faults, _part)


def _zero(values: Mapping[str, Any], faults: Faults) -> None:
    """A service without a replica is woken by the queue in front of it, and its law needs an objective."""
    replicas = values.get("replicas")
    if replicas in (None, BAD) or replicas["min"] != 0:
        return
    if values["gateway"] is None:
        what = "replicas.min is 0, but there is no queue that holds requests while no replica runs."
        faults.add("replicas.min", f"{what} Add gateway, such as {{slots: 8}}, or set min to 1.")
    if values["objective"] is None:
        what = "replicas.min is 0, but there is no objective to scale by."
        faults.add("replicas.min", f"{what} Add objective, such as {{p95_latency: 500ms}}, or set min to 1.")
    if values["standby"] not in (None, BAD, 0):
        what = f"standby is {values['standby']}, which keeps replicas loaded, but replicas.min 0 lets all go."
        faults.add("standby", f"{what} Remove standby, or set min to 1.")


def _steps(values: Mapping[str, Any], faults: Faults) -> None:
    """A canary takes steps upwards, by the requests that kept the objective."""
    rollout = values.get("rollout")
    if rollout in (None, BAD) or BAD in rollout.values():
        return
    steps, at = rollout["steps"], "rollout.steps"
    if not steps:
        if rollout["step_minutes"] is not None:
            faults.add(
                "rollout.step_minutes", "rollout.step_minutes is given without rollout.steps. Add steps, or remove it."
            )
        return
    shown = ", ".join(map(str, steps))
    if list(steps) != sorted(steps):
        faults.add(at, f"{at} is {shown}, which does not rise. Write {', '.join(map(str, sorted(steps)))}.")
    if rollout["weight"] != PROMOTED:
        text = f"rollout.weight is {rollout['weight']}, and rollout.steps say what part a new revision gets. Keep one."
        faults.add("rollout.weight", text)
    if values["objective"] is None:
        faults.add(at, f"{at} is {shown}, but there is no objective to take steps by. Add objective.")


def _unique(pairs: Iterable[tuple[str, Any]], problem: str, faults: Faults) -> None:
    seen = set()
    for at, value in pairs:
        if value is not BAD and value in seen:
            faults.add(at, f"{at}: {value} {problem}. Keep one.")
        seen.add(value)
