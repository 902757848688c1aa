"""How the submit form is laid out: which field of the job file stands where, and what it is called there."""

from collections.abc import Mapping, Sequence

from scheduler.model.workload import Kind

ABOUT = {
    Kind.TRAINING: "A job of workers that start and end together. After a preemption it resumes from its checkpoint.",
    Kind.NOTEBOOK: "An interactive session on a GPU or a part of one, with an address.",
    Kind.INFERENCE: "A service with replicas and a latency objective.",
}
COMMON_MORE = (
    "working_dir",
    "resources.gpu_memory",
    "resources.shared_memory",
    "topology.prefer",
    "max_duration",
    "after",
    "pull_secrets",
    "run_as_user",
    "labels",
)
SHARE = ("resources.gpu_share.guarantee", "resources.gpu_share.limit", "resources.gpu_share.memory")
MACHINE = ("resources.gpu_model", "resources.cpu", "resources.memory")
LAYOUT: Mapping[Kind, Sequence[tuple[str, Sequence[str]]]] = {
    Kind.TRAINING: (
        ("What runs", ("name", "team", "priority_class", "image", "command", "env")),
        ("What each worker needs", ("resources.gpus", *MACHINE)),
        ("How many workers", ("workers.count", "workers.min", "workers.max", "topology.require")),
        ("Time and checkpoints", ("expected_duration", "checkpoint.interval", "checkpoint.grace", "retries")),
        ("More", (*COMMON_MORE, "deadline", "framework", "args", "roles", *SHARE)),
    ),
    Kind.NOTEBOOK: (
        ("What runs", ("name", "team", "priority_class", "image", "env")),
        ("What it needs", (*SHARE, *MACHINE)),
        ("When it is idle", ("idle.park_after",)),
        ("More", (*COMMON_MORE, "resources.gpus", "expected_duration", "command", "args")),
    ),
    Kind.INFERENCE: (
        ("What runs", ("name", "team", "priority_class", "image", "command", "env")),
        ("What each replica needs", ("resources.gpus", *MACHINE)),
        ("Serving", ("port", "replicas.min", "replicas.max")),
        ("Objective (SLO)", ("objective.p95_latency", "objective.availability", "objective.window")),
        ("Queue in front of it", ("gateway.slots", "gateway.late_after", "gateway.waiting")),
        ("More", (*COMMON_MORE, "health", "rollout.deadline", "rollout.weight", "args", *SHARE)),
    ),
}
LABELS = {
    "name": "Name",
    "team": "Team",
    "priority_class": "Priority",
    "image": "Image",
    "command": "Command",
    "args": "Arguments",
    "env": "Environment",
    "working_dir": "Working directory",
    "resources.gpus": "GPUs",
    "resources.gpu_model": "GPU model",
    "resources.gpu_memory": "Minimum GPU memory",
    "resources.cpu": "CPU",
    "resources.memory": "Memory",
    "resources.shared_memory": "Shared memory",
    "resources.gpu_share.guarantee": "GPU share, guarantee",
    "resources.gpu_share.limit": "GPU share, limit",
    "resources.gpu_share.memory": "GPU share, memory",
    "workers.count": "Workers",
    "workers.min": "Minimum",
    "workers.max": "Maximum",
    "topology.require": "All within one",
    "topology.prefer": "Preferably within one",
    "expected_duration": "Expected duration",
    "max_duration": "Maximum duration",
    "checkpoint.interval": "Checkpoint every",
    "checkpoint.grace": "Grace period",
    "retries": "Retries",
    "after": "After",
    "deadline": "Deadline",
    "pull_secrets": "Registry secrets",
    "run_as_user": "Run as user",
    "framework": "Framework",
    "roles": "Roles",
    "labels": "Labels",
    "idle.park_after": "Park after",
    "port": "Port",
    "replicas.min": "Minimum",
    "replicas.max": "Maximum",
    "objective.p95_latency": "p95 latency",
    "objective.availability": "Availability",
    "objective.window": "Window",
    "health": "Health path",
    "rollout.deadline": "Ready within",
    "rollout.weight": "Share of requests",
    "gateway.slots": "Slots per replica",
    "gateway.late_after": "Late after",
    "gateway.waiting": "Most that wait",
}
EXAMPLES = {
    "name": "bert-base",
    "image": "registry.example/bert:1.4",
    "command": "torchrun train.py",
    "env": "EPOCHS=3",
    "resources.gpu_model": "A100, H100",
    "resources.cpu": "8",
    "resources.memory": "64Gi",
    "workers.count": "1",
    "expected_duration": "6h",
    "checkpoint.interval": "10m",
    "checkpoint.grace": "30s",
    "max_duration": "12h",
    "objective.p95_latency": "200ms",
    "objective.availability": "99.9",
    "objective.window": "28d",
    "health": "/health",
    "rollout.deadline": "10m",
    "rollout.weight": "100",
    "gateway.slots": "8",
    "gateway.late_after": "1s",
    "gateway.waiting": "100",
    "labels": "project=demo",
    "roles": "- {name: ps, count: 2, resources: {cpu: 4}}",
    "after": "prepare-data",
    "deadline": "2026-12-01T08:00:00Z",
    "working_dir": "/work",
    "idle.park_after": "30m",
    "resources.gpu_share.guarantee": "0.25",
    "resources.gpu_share.limit": "1.0",
    "resources.gpu_share.memory": "10Gi",
    "resources.gpu_memory": "40Gi",
    "resources.shared_memory": "16Gi",
}
STARTING = {
    Kind.TRAINING: {"resources.gpus": "1", "workers.count": "1"},
    Kind.NOTEBOOK: {"resources.gpu_share.guarantee": "0.25", "resources.gpu_share.memory": "8Gi"},
    Kind.INFERENCE: {"resources.gpus": "1", "replicas.min": "1", "replicas.max": "2"},
}
UNITS = {
    "resources.cpu": "cores",
    "objective.availability": "%",
    "resources.gpus": "each",
    "env": "NAME=value, one per line",
}
HALF = frozenset({"image", "command", "args"})
THIRD = frozenset({"name", "team", "priority_class"})
WIDTH = {4: "quarter", 1: "half"}  # of the fields of a group, by how many it has
