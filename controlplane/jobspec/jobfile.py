"""The job file as one table: every field with its shape, its default and a sentence (docs/job-file.md).

Reading, the REST schema and the documentation of a field come from here. Rules between fields are in spec.py.
"""

import posixpath
from pathlib import PurePosixPath

from controlplane.jobspec import quantities
from controlplane.jobspec.gpushares import GPU_SHARE, LABEL_FIX, LABEL_TEXT, SHARE_OF_ROLE, SHARE_OF_SERVICE, memory
from controlplane.jobspec.named import Named
from controlplane.jobspec.reserved import is_reserved
from controlplane.jobspec.scaling import MEMORIES, WAYS, WAYS_TO_SPREAD
from controlplane.jobspec.shapes import (
    REQUIRED,
    Choice,
    Field,
    Flag,
    Items,
    Pairs,
    Quantity,
    Record,
    Shape,
    Text,
    Whole,
    WholeOrWord,
    shown,
)  # fmt: skip
from scheduler.model.dependency import When
from scheduler.model.workload import Kind, Level

LABEL = "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
# Labels with dots between them; written so that it takes less than half the memory on a text that does not match.
DOTTED = r"[a-z0-9]+(?:(?:\.|-+)[a-z0-9]+)*"
LABEL_RULE = "Use a-z, 0-9 and -, beginning and ending with a letter or digit."
RESERVED_NAMES = ("kube-", "weft-")
IMAGE = (
    r"(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?/)?"  # registry
    r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*)*"  # path
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"  # tag, digest
)
RESERVED_PATHS = ("/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/usr/local/nvidia", "/usr/local/cuda")
# A mount at one of these would cover a reserved path.
ABOVE_RESERVED = tuple(sorted({str(above) for path in RESERVED_PATHS for above in PurePosixPath(path).parents}))
GPU_DOMAINS = ("nvidia.com", "amd.com", "gpu.intel.com", "habana.ai")
NOTEBOOK_IMAGE = "quay.io/jupyter/base-notebook"
MAX_WORKERS = 4096
AUTO = "auto"  # of standby: as many as replicas.max allows
MAX_ROLES = 8
MAX_GPUS = 1024  # on one node; far above any machine
YEAR = 366 * 86_400.0


def _name(value: str) -> str:
    prefix = next((p for p in RESERVED_NAMES if value.startswith(p)), "")
    return f". Names that begin with {prefix} are the platform's. Choose another one." if prefix else ""


def _variable(value: str) -> str:
    if is_reserved(value):
        return ", which is reserved: the platform sets it. Remove it."
    return ""


def _path(value: str) -> str:
    """What is wrong with a mount path and what to do, to follow it in a sentence; empty if nothing is.

    A path has one way to be written: any other would name a reserved path without looking like it.
    """
    if ".." in value.split("/"):
        return ", which holds `..`. Write the path without it."
    normal = f"/{posixpath.normpath(value).lstrip('/')}"  # normpath keeps two slashes at the beginning
    if normal in ABOVE_RESERVED or any(normal == p or normal.startswith(f"{p}/") for p in RESERVED_PATHS):
        return ", which is the system's. Choose a path such as /data."
    return f". Write it as {shown(normal)[1:-1]}." if value != normal else ""


def _key(value: str) -> str:
    is_path = value == "." or value.startswith("..")  # Kubernetes writes keys as files
    return ", which no key of a secret may be. Rename the key." if is_path else ""


def _extra(value: str) -> str:
    domain = value.partition("/")[0]
    if domain in GPU_DOMAINS:
        return ", which is a GPU. Write gpus or gpu_share, so that it is counted."
    if domain.endswith("kubernetes.io"):
        return ", which is Kubernetes' own. Use cpu, memory or shared_memory."
    return ""


def _duration(example: str, least: tuple[str, float] = ("1s", 1.0), most: tuple[str, float] = ("366d", YEAR)) -> Shape:
    return Quantity(quantities.seconds, least[1], most[1], f'"{example}"', (least[0], most[0]))


NAME = Text(63, LABEL, LABEL_RULE, check=_name)
TEAM = Text(40, LABEL, LABEL_RULE)
WORD = Text(40, LABEL, LABEL_RULE)
ARGUMENT = Text(8192, has_lines=True, may_be_empty=True)
PATH = Text(1024, "/[^\x00\n:]*", "Give an absolute path, beginning with / and without `:`.", check=_path)
VARIABLE = Text(
    128, "[A-Za-z_][A-Za-z0-9_]*", "Use letters, digits and _, not beginning with a digit.", check=_variable
)
VARIABLES = Pairs(VARIABLE, Text(8192, has_lines=True, may_be_empty=True), 200)
HEALTH = Text(200, r"/[A-Za-z0-9/._~%?&=+-]*", "Give a path, such as /health.")
IMAGE_FIELD = Text(512, IMAGE, "Give registry/name:tag, in lower case and without spaces.")
SECRET_KEY = Text(253, "[A-Za-z0-9._-]+", "Use letters, digits, `.`, _ and -.", check=_key)
OBJECT_NAME = Text(253, DOTTED, LABEL_RULE)
DEVICE = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
EXTRA_NAME = Text(128, rf"{DOTTED}/{DEVICE}", "Write domain/name, such as rdma/hca.", check=_extra)
PORT = Whole(1, 65_535)
LEVELS = Choice(tuple(level.name.lower() for level in Level if level is not Level.CLUSTER))


def _resources(share: Record) -> Record:
    return Record(
        (
            Field("gpus", Whole(0, MAX_GPUS), "Whole GPUs of each worker. Less than one GPU is a gpu_share."),
            Field("gpu_share", share, "A share of one GPU, in place of gpus."),
            Field(
                "gpu_model",
                Items(Text(40, LABEL_TEXT, LABEL_FIX), 20, is_unique=True, takes_one=True),
                "GPU models allowed, such as [A100, H100]; any if absent.",
            ),
            Field("gpu_memory", memory("40Gi"), "The least memory of each whole GPU."),
            Field(
                "cpu",
                Quantity(quantities.cpu_milli, 1, 1_024_000, '8 or "500m"', ("1m", "1024"), takes_numbers=True),
                "CPU cores of each worker, such as 8 or 500m.",
                1,
            ),
            Field("memory", memory("64Gi"), "Main memory of each worker.", "2Gi"),
            Field("shared_memory", memory("16Gi"), "Size of /dev/shm; part of memory."),
            Field(
                "extra",
                Pairs(EXTRA_NAME, Whole(1, MAX_GPUS), 10),
                "Other devices of each worker that the platform allows, such as {rdma/hca: 1}.",
            ),
        ),
        {"gpu": "Write gpus: 1 for whole GPUs, or gpu_share for a part of one."},
    )


RESOURCES = _resources(GPU_SHARE)
SECRET = Record(
    (
        Field("name", OBJECT_NAME, "Name of a secret of the team.", REQUIRED),
        Field("key", SECRET_KEY, "The key in it.", REQUIRED),
        Field("env", VARIABLE, "The variable that gets its value.", REQUIRED),
    )
)
VOLUME = Record(
    (
        Field("claim", OBJECT_NAME, "Name of a volume claim of the team."),
        Field(
            "scratch", memory("50Gi"), "In place of a claim: empty space of at most this size, gone with the worker."
        ),
        Field("path", PATH, "Where it is mounted.", REQUIRED),
        Field("read_only", Flag(), "Whether it can only be read.", False),
    ),
    {
        other: "A volume is a claim or scratch space: {claim: datasets, path: /data}."
        for other in ("host_path", "hostPath", "nfs", "name", "sub_path", "subPath", "secret")
    },
)
WORKERS = Record(
    (
        Field("count", Whole(1, MAX_WORKERS), "How many workers are wanted.", REQUIRED),
        Field("min", Whole(1, MAX_WORKERS), "The least that may start; count if absent."),
        Field("max", Whole(1, MAX_WORKERS), "The most it can use; count if absent."),
        Field("asynchronous", Flag(), "Whether no worker waits in a step for the slowest one."),
    )
)
ROLE = Record(
    (
        Field("name", Text(40, LABEL, LABEL_RULE), "What the role is called, such as ps; not worker.", REQUIRED),
        Field("count", Whole(1, MAX_WORKERS), "How many members it has; always all of them.", 1),
        Field("resources", _resources(SHARE_OF_ROLE), "What each member needs, such as {cpu: 4}.", REQUIRED),
        Field("image", IMAGE_FIELD, "Container image; the workers' if absent."),
        Field("command", Items(ARGUMENT, 64), "Its entry point; the workers' command and args if absent."),
        Field("args", Items(ARGUMENT, 256), "Arguments of the command."),
        Field("env", VARIABLES, "Environment variables beside those of all members."),
    ),
    {
        "gpus": "Write it inside resources: {gpus: 1}.",
        "cpu": "Write it inside resources: {cpu: 4}.",
        "min": "Only the workers are elastic. Write count.",
        "max": "Only the workers are elastic. Write count.",
    },
)
REPLICAS = Record(
    (
        Field(
            "min",
            Whole(0, MAX_WORKERS),
            "The least replicas, kept as long as there is room. 0: none while no request comes.",
            1,
        ),
        Field("max", Whole(1, MAX_WORKERS), "The most replicas; min if absent."),
        Field("spread", Choice(WAYS_TO_SPREAD), "Over what they are spread if there is room; pack if absent."),
        Field(
            "scale_to_zero_after",
            _duration("10m", ("1m", 60.0), ("24h", 86_400.0)),
            "With min 0: so long without a request, and it has no replica until the next one; 10m if absent.",
        ),
    )
)
TOPOLOGY = Record(
    (
        Field("require", LEVELS, "All workers must be within one of these."),
        Field("prefer", LEVELS, "All workers should be within one of these."),
    )
)
CHECKPOINT = Record(
    (
        Field("interval", _duration("10m"), "How often it saves its work."),
        Field("grace", _duration("60s", most=("1h", 3600.0)), "How long it may take to save and leave.", "30s"),
    )
)
EXAMPLES = Whole(1, 1_000_000_000)
BATCH = Record(
    (
        Field("size", EXAMPLES, "Examples of all workers in a step; in WEFT_BATCH_SIZE of its pods.", REQUIRED),
        Field("min", EXAMPLES, "The least that Weft may give it; size if absent."),
        Field("max", EXAMPLES, "The most that Weft may give it; size if absent."),
    )
)
IDLE = Record((Field("park_after", _duration("30m", ("1m", 60.0)), "Idle for so long, it is parked."),))
P95_LATENCY = _duration("200ms", ("1ms", 0.001), ("1h", 3600.0))
P95_FIRST_TOKEN = _duration("500ms", ("1ms", 0.001), ("1h", 3600.0))
OBJECTIVE = Record(
    (
        Field("p95_latency", P95_LATENCY, "95 % of requests are answered in; or give p95_first_token."),
        Field("p95_first_token", P95_FIRST_TOKEN, "In place of it: 95 % of requests have their first token in."),
        Field(
            "availability",
            Quantity(quantities.milli, 1, 99_999, "99.9", ("0.001", "99.999"), takes_numbers=True, takes_text=False),
            "Percent of requests that must be within that.",
            99.0,
        ),
        Field("window", _duration("28d", ("1h", 3600.0)), "Over how long that is counted.", "28d"),
    )
)
_SERVED = ("1ms", 0.001), ("3h", 10_800.0)
PROFILE = Record(
    (
        Field("service_time", _duration("250ms", *_SERVED), "Mean time of a request in a replica, no wait.", REQUIRED),
        Field("p95", _duration("600ms", *_SERVED), "95 % take no longer there; 2.3 times the mean if absent."),
        Field("slots", Whole(1, 4096), "Requests that one replica runs at once; 1 if absent."),
    )
)
STEP_MINUTES = 10  # of each step, where a job file says nothing
ROLLOUT = Record(
    (
        Field(
            "deadline",
            _duration("10m", ("30s", 30.0), ("24h", 86_400.0)),
            "Without a further replica ready within so long, the revision before is brought back.",
            "10m",
        ),
        Field(
            "weight",
            Whole(1, 100),
            "Percent of the requests that a new revision gets until it is promoted; 100: it replaces the one before.",
            100,
        ),
        Field(
            "steps",
            Items(Whole(1, 99), 20, is_unique=True),
            "Percents that it gets one after the other while it keeps the objective; then it is promoted.",
        ),
        Field("step_minutes", Whole(1, 10_080), f"How long each step lasts at least; {STEP_MINUTES} if absent."),
    )
)
GATEWAY = Record(
    (
        Field("slots", Whole(1, 10_000), "How many requests one replica serves at once; more wait.", REQUIRED),
        Field("late_after", _duration("2s", ("1ms", 0.001), ("1h", 3600.0)), "What waited longer goes last.", "1s"),
        Field("waiting", Whole(0, 100_000), "How many may wait; more are told to come again (503).", 100),
    )
)
NEEDED = Record(
    (
        Field("name", NAME, "Name of a workload of the team.", REQUIRED),
        Field("when", Choice(tuple(When)), "What it must be; if absent, what its type means by being met."),
    )
)
TRAINING, NOTEBOOK, INFERENCE = (kind.value for kind in Kind)
HEAD = (
    Field("type", Choice(tuple(Kind)), "training, notebook or inference.", REQUIRED),
    Field("name", NAME, "A DNS label, unique among the team's live workloads.", REQUIRED),
    Field("team", TEAM, "The team whose quota it uses.", REQUIRED),
    Field("priority_class", WORD, "The platform's default class if absent."),
)
NEEDS = "What each worker needs, such as {gpus: 1}."
BODY = (
    Field("command", Items(ARGUMENT, 64), "Replaces the image's entry point."),
    Field("args", Items(ARGUMENT, 256), "Arguments of the command."),
    Field("env", VARIABLES, "Environment variables."),
    Field("working_dir", Text(1024, "/[^\n]*", "Give an absolute path, beginning with /."), "Directory to start in."),
    Field("secrets", Items(SECRET, 50), "Values of the team's secrets, as variables."),
    Field("volumes", Items(VOLUME, 20), "The team's volumes, and scratch space."),
    Field("pull_secrets", Items(OBJECT_NAME, 10, is_unique=True), "The team's secrets for private registries."),
    Field(
        "run_as_user", Whole(0, 2**31 - 1), "User id that runs it; the image's user if absent, which may not be root."
    ),
    Field("resources", RESOURCES, NEEDS, REQUIRED),
    Field("topology", TOPOLOGY, "How close together the workers are: nvlink, node, rack or zone."),
    Field("max_duration", _duration("12h"), "Ends it after so long a running time."),
    Field(
        "after",
        Items(Named(NEEDED), 20),
        "Workloads of the team that must be met first: names, or {name: prepare, when: ended}.",
    ),
    Field("labels", Pairs(Text(63, LABEL_TEXT, LABEL_FIX), Text(63, LABEL_TEXT, LABEL_FIX), 50), "Free labels."),
    Field("cell", Text(20, LABEL, LABEL_RULE), "The cell that decides for it; the best one if absent."),
)
EXPECTED = Field("expected_duration", _duration("6h"), "A hint: running time in total.")
PORTS = Field("ports", Items(PORT, 20, is_unique=True), "Ports it listens on.")
STANDBY = WholeOrWord(Whole(0, MAX_WORKERS), AUTO)
OWN = {
    Kind.TRAINING: (
        Field("image", IMAGE_FIELD, "Container image.", REQUIRED),
        Field("workers", WORKERS, "One gang: started together, never fewer than min.", {"count": 1}),
        Field(
            "roles",
            Items(ROLE, MAX_ROLES),
            "Further pod sets of the gang, of a fixed size, such as [{name: ps, count: 2, resources: {cpu: 4}}].",
        ),
        Field("checkpoint", CHECKPOINT, "How often it saves, and how long it needs to leave.", {"grace": "30s"}),
        EXPECTED,
        Field(
            "deadline",
            Quantity(quantities.moment, 0, 4e9, '"2026-12-01T08:00:00Z"', ("1970-01-01T00:00:00Z", "2096-10-02Z")),
            "Still waiting then, it expires. In the day before it goes ahead of other trainings.",
        ),
        Field("retries", Whole(0, 100), "How often it is tried again after a failure.", 0),
        PORTS,
        Field("batch", BATCH, "Its batch, and between what sizes Weft may choose, such as {size: 256, max: 2048}."),
        Field(
            "framework",
            Choice(("pytorch", "tensorflow")),
            "tensorflow adds TF_CONFIG to the environment that every gang has.",
        ),
    ),
    Kind.NOTEBOOK: (
        Field("image", IMAGE_FIELD, "Container image.", NOTEBOOK_IMAGE),
        Field("idle", IDLE, "What happens when it is not used."),
        Field("on_demand", Flag(), "It has a GPU only while a cell runs, and books as much memory of its node."),
        EXPECTED,
        PORTS,
    ),
    Kind.INFERENCE: (
        Field("image", IMAGE_FIELD, "Container image.", REQUIRED),
        Field("port", PORT, "Port it serves on.", 8000),
        Field("replicas", REPLICAS, "Between how many replicas it is scaled.", {"min": 1}),
        Field("objective", OBJECTIVE, "Latency and availability it is held to."),
        Field("profile", PROFILE, "What is known of its requests: a start, until they were measured."),
        Field(
            "scaling",
            Choice(WAYS),
            "Who says how many replicas run: weft, or native for Kubernetes' own autoscaler; weft if absent.",
        ),
        Field(
            "standby",
            STANDBY,
            "Further replicas that are kept loaded and get no requests until they are needed: a number, or auto for "
            "all up to replicas.max. Elastic trainings borrow their GPUs meanwhile.",
        ),
        Field(
            "standby_memory",
            Choice(MEMORIES),
            "Where weights of those may wait: device, or host too; device if absent.",
        ),
        Field("health", HEALTH, "HTTP path that answers once a replica is ready; if absent, that its port does."),
        Field("rollout", ROLLOUT, "How a new image or environment replaces the one before."),
        Field("gateway", GATEWAY, "A queue in front of its replicas, such as {slots: 8}; none if absent."),
    ),
}


def _hints(kind: Kind) -> dict[str, str]:
    """Answers to fields of the other kinds."""
    mine = {f.name for f in OWN[kind]}
    others = {f.name: other for other, fields in OWN.items() for f in fields if f.name not in mine}
    return {name: f"It belongs to {other}; this is {kind}. Remove it." for name, other in others.items()} | {
        "project": "Write team.",
        "gpu": "Write resources: {gpus: 1}.",
        "gpus": "Write it inside resources: {gpus: 1}.",
        "gpu_share": "Write it inside resources.",
    }


def _body(kind: Kind) -> tuple[Field, ...]:
    """The fields of all kinds; a service's share may have more."""
    of_service = Field("resources", _resources(SHARE_OF_SERVICE), NEEDS, REQUIRED)
    return tuple(of_service if kind is Kind.INFERENCE and one.name == "resources" else one for one in BODY)


RECORDS = {kind: Record((*HEAD, *OWN[kind], *_body(kind)), _hints(kind)) for kind in Kind}
