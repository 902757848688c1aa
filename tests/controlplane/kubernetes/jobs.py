"""Job files by Hypothesis: every field, every kind; and the pods that their workers become."""

from typing import Any

from hypothesis import strategies as st

from controlplane.cluster.port import PodSpec
from controlplane.jobspec.spec import parse
from gpushare.gpu import WHOLE
from scheduler.model.workload import Kind

UID = "0a1b2c3d-0000-4000-8000-00000000000a"

_names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(
    lambda name: not name.startswith(("kube-", "weft-"))
)
_texts = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=30)
_variables = st.sampled_from(
    ["EPOCHS", "PATH", "RANK", "MASTER_ADDR", "TF_CONFIG", "PET_NNODES", "HOME", "_x", "NCCL_DEBUG", "NVIDI", "CUDA"]
)
_paths = st.sampled_from(["/data", "/a..b", "/a/b", "/work", "/opt/x", "/usr/share/x", "/mnt/d", "/devices"])
_mib = st.sampled_from(["1Mi", "512Mi", "1Gi", "1.5Gi", "100G", "3Ti"])
_labels = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,10}[A-Za-z0-9])?", fullmatch=True),
    max_size=3,
)
_shares = st.fixed_dictionaries({"guarantee": st.sampled_from([0.1, 0.3, 1]), "memory": _mib})
_memory = st.sampled_from(["4Ti", "8Ti"])  # shared memory has to fit
_machine = {
    "cpu": st.sampled_from([1, "500m", "1m", 64]),
    "shared_memory": _mib,
    "extra": st.just({"rdma/hca": 1}),
}
_resources = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(0, 16), "memory": _memory}, optional=_machine),
    st.fixed_dictionaries({"gpu_share": _shares, "memory": _memory}, optional=_machine),
)
_volumes = st.lists(
    st.one_of(
        st.fixed_dictionaries({"claim": _names, "path": _paths}, optional={"read_only": st.booleans()}),
        st.fixed_dictionaries({"scratch": _mib, "path": _paths}),
    ),
    max_size=4,
    unique_by=lambda volume: volume["path"],
)
_secrets = st.lists(
    st.fixed_dictionaries({"name": _names, "key": st.just("token"), "env": st.sampled_from(["TOKEN", "PASSWORD"])}),
    max_size=2,
    unique_by=lambda secret: secret["env"],
)
_common: dict[str, st.SearchStrategy[Any]] = {
    "command": st.lists(_texts, max_size=3),
    "args": st.lists(_texts, max_size=3),
    "env": st.dictionaries(_variables, _texts, max_size=4),
    "working_dir": _paths,
    "secrets": _secrets,
    "volumes": _volumes,
    "pull_secrets": st.lists(_names, max_size=2, unique=True),
    "run_as_user": st.sampled_from([0, 1, 1000, 2**31 - 1]),
    "labels": _labels,
}
_ports = st.lists(st.sampled_from([22, 80, 1023, 1024, 8888, 65_535]), max_size=2, unique=True)
_gangs = st.one_of(
    st.fixed_dictionaries({"count": st.integers(1, 40)}),
    st.just({"count": 4, "min": 2, "max": 8}),
)


def _head(kind: str) -> dict[str, st.SearchStrategy[Any]]:
    image = st.sampled_from(["a", "registry.example/team/app:1.4", "r.example:5000/x@sha256:" + "0" * 64])
    return {"type": st.just(kind), "name": _names, "team": _names, "image": image, "resources": _resources}


_roles = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["ps", "evaluator", "0-x", "e" * 40]), "resources": _resources},
        optional={
            "count": st.integers(1, 3),
            "image": st.just("registry.example/ps:1"),
            "command": st.lists(_texts, max_size=2),
            "args": st.lists(_texts, max_size=2),
            "env": st.dictionaries(_variables, _texts, max_size=3),
        },
    ),
    max_size=3,
    unique_by=lambda role: role["name"],
)


job_files: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries(
        _head("training"),
        optional={
            **_common,
            "workers": _gangs,
            "roles": _roles,
            "ports": _ports,
            "framework": st.sampled_from(["pytorch", "tensorflow"]),
            "batch": st.fixed_dictionaries({"size": st.sampled_from([4096, 1_000_000_000])}),
            "checkpoint": st.fixed_dictionaries({"grace": st.sampled_from(["1s", "1.5s", "30s", "1h"])}),
        },
    ),
    st.fixed_dictionaries(_head("notebook"), optional={**_common, "ports": _ports}),
    st.fixed_dictionaries(_head("inference"), optional={**_common, "port": st.sampled_from([80, 8000])}),
)


def pod_of(job: dict[str, Any], *, rank: int = 0, size: int = 1, attempt: int = 1, uid: str = UID) -> PodSpec:
    """One worker of this job as the outbox would have it."""
    spec = parse(job)
    roles = [role for role in spec.roles for _ in range(role.count)]
    ask = roles[rank].ask if rank < len(roles) else spec.resources
    return PodSpec(
        workload=uid,
        attempt=attempt,
        rank=rank,
        size=size,
        node="a",
        gpus=tuple(range(ask.gpus or (1 if ask.share else 0))),
        milli=ask.share.guarantee if ask.share else WHOLE,
        gpu_memory=ask.share.memory if ask.share else 0,
        cpu_milli=ask.cpu_milli,
        memory=ask.memory,
        namespace=spec.team,
        spec=spec.document(),
        revision=1 if spec.type is Kind.INFERENCE else 0,
        batch=spec.batch.size if spec.batch else 0,
    )


def job(**changes: Any) -> dict[str, Any]:
    """A small job file with some fields changed."""
    small = {"type": "training", "name": "hello", "team": "nlp", "image": "registry.example/app:1"}
    return {**small, "resources": {"gpus": 1}, **changes}


@st.composite
def pods(draw: st.DrawFn) -> PodSpec:
    """Some worker of some job."""
    file = draw(job_files)
    spec = parse(file)
    most = spec.workers.max + sum(role.count for role in spec.roles)
    return pod_of(file, rank=draw(st.integers(0, most - 1)), size=most, attempt=draw(st.integers(1, 99)))
