"""What can be done in a story: the sentences, and what each does on any cluster behind the port."""

import re
from collections.abc import Callable
from typing import Any

from controlplane.jobspec.spec import Spec, stored
from controlplane.models import Team, Workload
from controlplane.services.scheduling import draining, nodes
from controlplane.services.workloads import submission, workloads
from controlplane.services.workloads.submission import Submission
from scheduler.model.workload import Kind
from tests.contract.mortal import Death
from tests.contract.scene import Scene
from tests.contract.story import Step, seconds
from tests.controlplane.state import job


def do(scene: Scene, step: Step) -> None:
    """Do it. Raises ValueError for a sentence that there is none of."""
    for pattern, act in STEPS.items():
        if found := re.fullmatch(pattern, step.text):
            act(scene, *found.groups(default=""), **({"values": step.values} if step.values else {}))
            return
    raise ValueError(f"line {step.line}: {step.text!r} is no step. story.py lists them.")


def _submit(scene: Scene, name: str, team: str, kind: str, values: dict[str, Any]) -> None:
    asked = dict(values)
    runs, code, is_slow = asked.pop("runs", None), asked.pop("exit_code", 0), asked.pop("slow", False)
    resources = {"cpu": 1, "memory": "1Gi", **asked.pop("resources", {"gpus": asked.pop("gpus", 0)})}
    spec = job(name, team, kind, resources=resources, **asked)
    file = scene.drive.job_file(Kind(kind), None if runs is None else seconds(runs), code)
    file = scene.drive.slow(file) if is_slow else file
    extra: dict[str, Any] = {part: file[part] for part in ("simulated", "kwok") if file.get(part)}
    if idle := _idle(scene, spec):
        extra["normalised"] = {**spec.document()["normalised"], **idle}
    at = scene.drive.cluster.now()
    (scene.workloads[name],) = submission.submit_all([Submission(spec, actor="alice", at=at, extra=extra)])


def _idle(scene: Scene, spec: Spec) -> dict[str, float]:
    """Spans of idleness as the story's time has them: nobody may ask for less than a minute."""
    told = {"park_after_seconds": spec.idle.park_after, "scale_to_zero_after_seconds": spec.idle_after}
    return {name: scene.drive.seconds(value) for name, value in told.items() if value is not None}


def _ask(scene: Scene, verb: str, name: str) -> None:
    getattr(workloads, verb)(workload=scene.fresh(name), actor="alice")


def _resize(scene: Scene, name: str, values: dict[str, Any]) -> None:
    workload = scene.fresh(name)
    changes = {"resources": workload.spec["resources"] | values}
    workloads.patch(workload=workload, changes=changes, version=None, actor="alice")


def _change(scene: Scene, name: str, values: dict[str, Any]) -> None:
    """As a person would; a deadline, idleness and a canary's steps are scaled as all time of a story is."""
    workload = scene.fresh(name)
    workloads.patch(workload=workload, changes=values, version=None, actor="alice")
    if idle := _idle(scene, stored(scene.fresh(name).spec)):
        spec = scene.fresh(name).spec
        Workload.objects.filter(pk=workload.pk).update(spec=spec | {"normalised": spec["normalised"] | idle})
    if given := values.get("rollout", {}).get("deadline"):
        spec = scene.fresh(name).spec
        scaled = f"{scene.drive.seconds(seconds(given)):.3f}s"
        Workload.objects.filter(pk=workload.pk).update(spec=spec | {"rollout": spec["rollout"] | {"deadline": scaled}})
    if (rollout := scene.fresh(name).rollout) and rollout["steps"]:
        scaled_step = scene.drive.seconds(rollout["step_seconds"])
        Workload.objects.filter(pk=workload.pk).update(rollout=rollout | {"step_seconds": scaled_step})


def _undo(scene: Scene, name: str) -> None:
    workloads.undo(workload=scene.fresh(name), actor="alice")


def _drain(scene: Scene, node: str) -> None:
    draining.drain(name=_node(scene, node), actor="root")


def _cordon(scene: Scene, un: str, node: str) -> None:
    nodes.cordon(name=_node(scene, node), on=not un, actor="root")


def _lose_node(scene: Scene, node: str) -> None:
    scene.drive.lose_node(_node(scene, node))


def _restore_node(scene: Scene, node: str) -> None:
    scene.drive.restore_node(node)


def _enforce(scene: Scene, no: str, node: str) -> None:
    scene.drive.enforce(_node(scene, node), on=not no)


def _lose_gpu(scene: Scene, name: str) -> None:
    seat = next(seat for seat in scene.seats(name) if seat.gpus)
    scene.drive.lose_gpu(seat.node, seat.gpus[0])


def _measure(scene: Scene, name: str, values: dict[str, Any]) -> None:
    scene.metrics.served[scene.uid(name)] = values


def _use(scene: Scene, name: str, values: dict[str, Any]) -> None:
    scene.metrics.used[scene.uid(name)] = values


def _reallocate(scene: Scene, team: str, mode: str) -> None:
    Team.objects.filter(name=team).update(reallocation=mode)


def _steps(scene: Scene, name: str, values: dict[str, Any]) -> None:
    scene.metrics.stepped[scene.uid(name)] = values


def _batches(scene: Scene, name: str, values: dict[str, Any]) -> None:
    scene.metrics.batched[scene.uid(name)] = values


def _slow(scene: Scene, node: str, values: dict[str, Any]) -> None:
    scene.metrics.slow[_node(scene, node)] = float(values["times"])


def _kill(scene: Scene) -> None:
    scene.die()


def _kill_at(scene: Scene, moment: str, verb: str, name: str) -> None:
    scene.cluster.death = Death(moment, verb, name, lambda: scene.uid(name))


def _wait(scene: Scene, time: str) -> None:
    scene.drive.wait(seconds(time))


def _node(scene: Scene, words: str) -> str:
    name = words.removeprefix("node of ")
    return words if name == words else str(scene.seats(name)[0].node)


STEPS: dict[str, Callable[..., None]] = {
    r"submit (\S+) (\S+) (\S+)": _submit,
    r"(stop|suspend|resume|requeue) (\S+)": _ask,
    r"resize (\S+)": _resize,
    r"change (\S+)": _change,
    r"undo (\S+)": _undo,
    r"drain (.+)": _drain,
    r"(un)?cordon (.+)": _cordon,
    r"lose node (\S+)|lose (node of \S+)": lambda scene, *one: _lose_node(scene, "".join(one)),
    r"restore node (\S+)": _restore_node,
    r"lose GPU of (\S+)": _lose_gpu,
    r"(un)?enforce shares on (.+)": _enforce,
    r"measure (\S+)": _measure,
    r"use (\S+)": _use,
    r"reallocate (\S+) (off|recommend|automatic)": _reallocate,
    r"steps of (\S+)": _steps,
    r"batches of (\S+)": _batches,
    r"slow (.+)": _slow,
    r"kill the worker": _kill,
    r"kill the worker (before|after) (start|stop) of (\S+)": _kill_at,
    r"wait (\S+)": _wait,
}
