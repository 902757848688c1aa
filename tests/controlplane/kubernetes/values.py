"""Values of the job file's fields for `generated`: usual ones, the edges of what is allowed, and what is refused."""

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

from scheduler.model.workload import Kind, Level

File = dict[str, Any]

SHARE_LABELS = ("affinity", "anti_affinity", "exclusion")
BEFORE = ("before-0", "before-1")  # workloads of each team that `after` may name
ODD_TEXTS = ("", "$(HOME) ${x} $$", "a\tb\nc", "ünï '\"`; rm -rf", "-", "--x=1")
_NAME_OF_253 = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
# By dotted name, or by the last parts of it.
VALUES: dict[str, Sequence[Any]] = {
    "standby": (0,),  # more needs an objective and a whole GPU as a share: tests/controlplane/test_standby.py
    "standby_memory": ("device",),  # host needs standby: tests/controlplane/test_standby_memory.py
    "on_demand": (False,),  # true needs a share without labels: tests/controlplane/test_on_demand.py
    "scaling": ("weft",),  # native needs controllers of Kubernetes' own: tests/adopted/test_native_services.py
    "name": ("run",),  # made unique by `head` and `gangs`
    "team": ("nlp", "ops"),
    "priority_class": ("normal", "high"),
    "image": ("registry.example/app:1", "registry.example/team/a__b:v1.2_x@sha256:" + "0" * 64, "quay.io/jupyter/x"),
    "command": ([], ["python", "train.py"], list(ODD_TEXTS), ["x"] * 64),
    "args": ([], ["--epochs", "3"], ["--fast"], list(ODD_TEXTS), ["a" * 8192]),
    "env": (
        {},
        {"EPOCHS": "3", "PATH": "/x", "HOME": "", "_": "1", "a" * 128: "x"},
        {"RANK": "7", "MASTER_ADDR": "x", "WORLD_SIZE": "1", "TF_CONFIG": "{}", "PET_NNODES": "9", "CUDA": "12"},
        {f"V{i}": text for i, text in enumerate(ODD_TEXTS)},
        {f"X{i}": str(i) for i in range(50)},
    ),
    "working_dir": ("/", "/work/../x", "//x/", "/a b"),
    "key": ("token", "a.b", ".x", "-_.", "k" * 253),
    "secrets.name": ("tracker", "a.b-c", _NAME_OF_253),
    "secrets.env": ("TOKEN", "PASSWORD", "secret_", "_1"),
    "claim": ("data", "a.b-c", "0", _NAME_OF_253),
    "scratch": ("1Mi", "1.5Gi", "100G", "1000000000", "1024Ti"),
    "path": ("/data", "/a..b", "/...", "/usr/share/x", "/var/lib/x", "/devices", "/run2", "/etcd", "/usr/local/x y"),
    "pull_secrets": ([], ["registry"], ["registry", "a.b-c", _NAME_OF_253]),
    "run_as_user": (1, 1000, 2**31 - 1),
    "gpus": (0, 1, 2, 8),
    "guarantee": (0.001, 0.3, 1),
    "limit": (1,),
    "max_limit": (1,),
    "affinity": ("web", "A.b_c-1"),
    "anti_affinity": ("ps", "x" * 63),
    "exclusion": ("1", "paper-7"),
    "gpu_share.memory": ("1Mi", "1.5Gi", "40G"),
    "gpu_model": ("A100", ["A100"], ["A100", "H100"], ["B.x_1", "A100"]),
    "gpu_memory": ("1Mi", "40Gi"),
    "cpu": (1, 0.5, "500m", "1m", 96),
    "memory": ("3Gi", "64Gi", "5G", "1000000Mi"),
    "shared_memory": ("1Mi", "1.5Gi", "2G"),
    "extra": ({}, {"rdma/hca": 1}, {"rdma/hca_shared-devices.a": 1024, "rdma/" + "x" * 63: 1}),
    "interval": ("1s", "10m", "366d"),
    "grace": ("1s", "1.5s", "30s", "1h"),
    "expected_duration": ("1s", "6h", "1.5h"),
    "max_duration": ("6h", "366d"),
    "deadline": ("2090-12-01T08:00:00Z", "2090-12-01T08:00:00.5+02:00"),
    "retries": (0, 3, 100),
    "park_after": ("1m", "30m", "366d"),
    "health": ("/", "/health", "/v1/models?ready=1"),
    "rollout.deadline": ("30s", "10m", "24h"),
    "rollout.weight": (1, 50, 100),
    "rollout.steps": ([5, 25, 50], [1], list(range(1, 100, 5))),
    "rollout.step_minutes": (1, 10, 10_080),
    "p95_latency": ("1ms", "200ms", "1h"),
    "p95_first_token": ("1ms", "500ms", "1h"),
    "profile.service_time": ("1ms", "250ms"),
    "profile.p95": ("250ms", "3h"),
    "profile.slots": (1, 4096),
    "batch.size": (100_000, 2_000_000, 1_000_000_000),
    "batch.min": (50_000, 100_000),
    "batch.max": (1_000_000_000,),
    "availability": (0.001, 99.9, 99.999),
    "window": ("1h", "28d"),
    "slots": (1, 8, 10_000),
    "late_after": ("1ms", "2s", "1h"),
    "waiting": (0, 100, 100_000),
    "ports": ([], [80], [22, 1023, 1024, 29_500, 65_535], list(range(9000, 9020))),
    "port": (1, 80, 8000, 65_535),
    "after": ([], [BEFORE[0]], [BEFORE[0], {"name": BEFORE[1]}], [{"name": BEFORE[0], "when": "ended"}, BEFORE[1]]),
    "cell": ("rest",),  # another needs a policy with cells: tests/controlplane/test_cells.py
    "labels": ({}, {"project": "demo"}, {"A.b_C-1": "x.Y_z-0", "l" * 63: "v" * 63, "0": "0"}),
    "workers.count": (1, 1, 2),  # a gang's numbers are put into their order by `gangs`
    "workers.min": (1, 2),
    "workers.max": (2, 4096),
    "roles.count": (1, 1, 1, 2),
    "replicas.min": (1, 1, 1, 2),
    "replicas.max": (2, 4096),
    "replicas.spread": ("pack", "gpu", "zone"),
    "scale_to_zero_after": ("1m", "10m", "24h"),
}


def head(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """Its own type, and a name that no other file has."""
    del wanted
    file["type"] = str(kind)
    name = draw.choice((f"run-{number}", f"{number}-7b", f"w-{number}", f"{number}", f"n{number}".ljust(63, "x")))
    file["name"] = name


def volumes(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """Each is a claim or scratch space, at a path of its own."""
    del kind, number
    for at, volume in enumerate(file.get("volumes", ())):
        is_claim = wanted != "volumes.scratch" and (wanted.startswith("volumes.") or draw.random() < 0.5)
        volume.pop("scratch" if is_claim else "claim", None)
        volume.setdefault("claim" if is_claim else "scratch", "data" if is_claim else "1Gi")
        if not is_claim:
            volume.pop("read_only", None)
        volume["path"] += str(at)


def secrets(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """Each is a variable of its own."""
    del kind, number, draw, wanted
    for at, secret in enumerate(file.get("secrets", ())):
        secret["env"] += str(at)


def gangs(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """min <= count <= max, and a name of its own for each role."""
    del kind, number, draw, wanted
    workers, replicas = file.get("workers", {}), file.get("replicas", {})
    if "min" in workers:
        workers["min"] = min(workers["min"], workers["count"])
    if "min" in replicas and "max" not in replicas:
        replicas["min"] = 1
    if file.get("framework") == "tensorflow" and workers.get("max", 0) > 2:
        workers["max"] = 900
    names = ("ps", "e" * 40, "0-evaluator")
    for at, role in enumerate(file.get("roles", ())):
        role["name"] = names[at]


def objectives(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """One latency: of the answer, or of the first token."""
    del kind, number
    objective = file.get("objective")
    if objective is None:
        return
    is_first = wanted == "objective.p95_first_token" or (
        wanted != "objective.p95_latency" and "p95_first_token" in objective and draw.random() < 0.5
    )
    kept, other = ("p95_first_token", "p95_latency") if is_first else ("p95_latency", "p95_first_token")
    objective.pop(other, None)
    objective.setdefault(kept, "200ms")


def rollouts(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """A weight or steps; steps go by the objective."""
    del kind, number
    rollout = file.get("rollout", {})
    if "steps" in rollout and (wanted == "rollout.weight" or "objective" not in file):
        del rollout["steps"]
    if wanted in ("rollout.steps", "rollout.step_minutes"):
        file.setdefault("objective", {"p95_latency": "200ms"})
        rollout.setdefault("steps", draw.choice(VALUES["rollout.steps"])[:])
    if "steps" in rollout:
        rollout.pop("weight", None)
    else:
        rollout.pop("step_minutes", None)


def resources(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """Whole GPUs, a share or neither, and what goes with them."""
    del kind, number
    if wanted == "resources.gpu_share.max_limit":
        file.setdefault("objective", {"p95_latency": "200ms"})
    for asked in (file["resources"], *(role["resources"] for role in file.get("roles", ()))):
        needed = wanted.partition("resources.")[2]
        if "gpus" in asked and "gpu_share" in asked:
            is_share = needed.startswith("gpu_share") or (needed not in ("gpus", "gpu_memory") and draw.random() < 0.5)
            del asked["gpus" if is_share else "gpu_share"]
        if "gpu_share" in asked:
            asked.pop("gpu_memory", None)
            if "objective" not in file:
                asked["gpu_share"].pop("max_limit", None)
        elif needed in ("gpu_memory", "gpu_model"):
            asked["gpus"] = 1
        if "gpu_share" not in asked and not asked.get("gpus"):
            asked.pop("gpu_memory", None)
            asked.pop("gpu_model", None)


def labels(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """Shares of a gang with roles have none, and replicas with an affinity are not spread."""
    del kind, number, draw
    share = file["resources"].get("gpu_share", {})
    if wanted.rpartition(".")[2] in SHARE_LABELS:
        file.pop("roles", None)
    if "roles" in file:
        for name in SHARE_LABELS:
            share.pop(name, None)
    if "affinity" in share and file.get("replicas", {}).get("spread", "pack") != "pack":
        if wanted == "replicas.spread":
            del share["affinity"]
        else:
            del file["replicas"]["spread"]


def places(file: File, kind: Kind, number: int, draw: random.Random, wanted: str) -> None:
    """`prefer` is not wider than `require`."""
    del kind, number, draw, wanted
    topology = file.get("topology", {})
    if len(topology) == 2:
        levels = sorted(topology.values(), key=lambda name: Level[name.upper()])
        topology["prefer"], topology["require"] = levels


SETTLED = (head, volumes, secrets, gangs, objectives, rollouts, resources, labels, places)


def _with(**fields: Any) -> Callable[[File], File]:
    return lambda file: {**file, **fields}


def _asking(**fields: Any) -> Callable[[File], File]:
    return lambda file: {**file, "resources": {**fields}}


def _mounting(path: str) -> Callable[[File], File]:
    return _with(volumes=[{"claim": "data", "path": path}])


def _role(**fields: Any) -> Callable[[File], File]:
    role = {"name": "ps", "resources": {"cpu": 1}, **fields}
    return lambda file: {**file, "roles": [role]}


# (the field that the refusal names, how a file without fault becomes that). Of a training in a team at `restricted`.
REFUSED: tuple[tuple[str, Callable[[File], File]], ...] = (
    *(
        ("volumes.0.path", _mounting(path))
        for path in (
            *("//etc", "/./etc", "/usr//local/nvidia", "//dev", "/var//run", "/etc/", "/data/", "/data//x", "/data/."),
            *("/data/../etc", "data", "/", "//", "/.", "/var", "/usr/local", "/dev/shm", "/x:y", "/x\ny"),  # noqa: S108
        )
    ),
    ("run_as_user", _with(run_as_user=0)),
    ("image", _with(image="elsewhere.example/x:1")),
    ("image", _with(image="REGISTRY.example/x")),
    ("roles.0.image", _role(image="elsewhere.example/x:1")),
    ("roles.0.name", _role(name="worker")),
    ("roles.0.name", _role(name="ps_1")),
    ("roles.0.env.WEFT_ROLE", _role(env={"WEFT_ROLE": "worker"})),
    ("roles.0.env", _role(env={"TOKEN": "1"})),
    ("roles.0.resources.extra", _role(resources={"cpu": 1, "extra": {"example.com/fpga": 1}})),
    ("resources.extra", _asking(extra={"example.com/fpga": 1})),
    ("resources.extra.nvidia.com/gpu", _asking(extra={"nvidia.com/gpu": 1})),
    ("resources.extra.rdma/" + "x" * 55 + "...", _asking(extra={"rdma/" + "x" * 64: 1})),
    ("resources.gpus", _asking(gpus=1024)),
    ("resources.cpu", _asking(cpu=1024)),
    ("resources.shared_memory", _asking(memory="1Gi", shared_memory="2Gi")),
    ("env.WEFT_HOSTS_PS", _with(env={"WEFT_HOSTS_PS": "x"})),
    ("env.ld_preload", _with(env={"ld_preload": "x"})),
    ("secrets.0.key", _with(secrets=[{"name": "s", "key": "..x", "env": "A"}])),
    ("secrets.0.env", _with(secrets=[{"name": "s", "key": "k", "env": "NVIDIA_VISIBLE_DEVICES"}])),
    ("labels.weft.dev/team", _with(labels={"weft.dev/team": "ops"})),
    ("working_dir", _with(working_dir="work")),
    ("ports.0", _with(ports=[0])),
    ("nodeName", _with(nodeName="a")),
    ("volumes.0.host_path", _with(volumes=[{"host_path": "/", "path": "/data"}])),
    ("priority_class", _with(priority_class="system-node-critical")),
    ("after", _with(after=["nothing"])),
    ("deadline", _with(deadline="1990-01-01T00:00:00Z")),
)


def refused(file: File) -> list[tuple[str, File]]:
    """The field at fault and the file, for each way of being refused; `file` has no fault."""
    base = {**copy.deepcopy(file), "secrets": [{"name": "s", "key": "k", "env": "TOKEN"}]}
    return [(field, {**change(base), "name": f"bad-{at}"}) for at, (field, change) in enumerate(REFUSED)]
