"""A service with `scaling: native` where there is no Kubernetes: its autoscaler's rule is played."""

import pytest

from controlplane.jobspec.spec import SpecError, parse, stored
from controlplane.models import Event, ServiceScaler
from tests.controlplane.played import play

FILE = {
    "type": "inference",
    "name": "chat",
    "team": "nlp",
    "image": "registry.example/chat:1",
    "resources": {"gpus": 1},
    "replicas": {"min": 1, "max": 6},
    "objective": {"p95_latency": "500ms"},
    "scaling": "native",
}


# --- what may be asked ----------------------------------------------------------------------------


def test_a_job_file_says_that_kubernetes_scales_it() -> None:
    spec = parse(FILE)
    assert spec.is_native
    assert spec.document()["scaling"] == "native"
    assert stored(spec.document()) == spec
    assert not parse({**FILE, "scaling": "weft"}).is_native
    assert "scaling" not in parse({n: v for n, v in FILE.items() if n != "scaling"}).document()


SHARE = {"gpu_share": {"guarantee": 1, "memory": "6Gi"}}


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"scaling": "hpa"}, "scaling", "Use weft or native."),
        ({"objective": None}, "scaling", "Add objective, such as {p95_latency: 500ms}, or remove scaling."),
        ({"replicas": {"min": 0, "max": 3}, "gateway": {"slots": 4}}, "replicas.min", "Set min to 1, or remove"),
        ({"rollout": {"weight": 10}}, "rollout", "Remove rollout, or remove scaling."),
        ({"rollout": {"steps": [5, 50]}}, "rollout", "Remove rollout, or remove scaling."),
        ({"resources": SHARE}, "resources.gpu_share", "Ask for resources: {gpus: 1}, or remove scaling."),
    ],
)
def test_what_a_deployment_or_its_autoscaler_cannot_do_is_refused(changes, field: str, fix: str) -> None:
    document = {name: value for name, value in {**FILE, **changes}.items() if value is not None}
    with pytest.raises(SpecError) as refused:
        parse(document)
    (error,) = refused.value.errors
    assert error.field == field
    assert fix in error.message


def test_standby_beside_it_is_refused_by_its_own_name() -> None:
    with pytest.raises(SpecError) as refused:
        parse({**FILE, "standby": 1, "resources": SHARE})
    assert {"standby": "Remove standby, or remove scaling."}.items() <= {
        error.field: error.message.partition("replicas on standby. ")[2] for error in refused.value.errors
    }.items()


# --- with the loops -------------------------------------------------------------------------------


@pytest.mark.django_db
def test_with_the_loops_the_rule_scales_it_and_its_state_is_kept() -> None:
    rate = {"base": 60.0, "amplitude": 0.0, "burst_part": 0.0, "noise": 0.0}  # one replica is far too few
    _, service = play({**FILE, "simulated": {"rate": rate}}, 1800.0)
    scaled = Event.objects.filter(workload=service.pk, kind="Scaled").order_by("id")
    assert scaled, "one replica is not enough"
    assert all("requests are in flight, and a replica is to have" in one.message for one in scaled)
    assert 1 < service.workers <= 6
    row = ServiceScaler.objects.get(workload=service.pk)
    assert row.in_flight is not None
    assert row.target
    assert row.desired == service.workers
    assert {name for name, *_ in row.conditions} == {"AbleToScale", "ScalingLimited"}
