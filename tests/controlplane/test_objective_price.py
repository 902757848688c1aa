"""What an objective costs: told alike by REST, the form and the CLI, from what was learned and measured."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from autoscaler.law import STANDBY, State, Terms
from autoscaler.observed import Learned, counted
from autoscaler.price import price
from autoscaler.settings import Settings
from controlplane.domain import lawstate
from controlplane.models import Quota, ServiceState, ServiceWindow, Workload
from tests.controlplane.api.conftest import People, body_of, fields_of, people

pytestmark = pytest.mark.django_db


@pytest.fixture
def crowd(settings: Any) -> People:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return people()


@pytest.fixture
def chat(crowd: People) -> Workload:
    made = crowd.world.submit("chat", kind="inference", gpus=2, replicas={"min": 1, "max": 6})
    crowd.world.run(made, "a")
    return made


def learned(w: Workload, at: float, rate: float = 100.0) -> None:
    """Requests of 50 ms, four at once, and the last hour's load."""
    state = State(learned=Learned(counted(np.full(4000, 0.05)), 200.0, slots=4))
    ServiceState.objects.create(workload=w.pk, at=at, state=lawstate.plain(state))
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=w.pk, start=at - 60 * (k + 1), requests=6000, over=0, requests_per_second=rate)
        for k in range(60)
    )


def test_a_latency_costs_the_replicas_that_the_law_asks_for(crowd: People, chat: Workload) -> None:
    learned(chat, crowd.world.cluster.at)
    found = body_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo/price?p95_latency=90ms"))
    now, asked = found["now"], found["asked"]
    assert (now["p95_seconds"], asked["p95_seconds"]) == (0.2, 0.09)
    assert now["gpu_hours_a_day"] == pytest.approx(24 * 2 * now["replicas_mean"])
    assert asked["gpu_hours_a_day"] > now["gpu_hours_a_day"]
    assert 2 <= now["replicas_most"] <= 6
    assert now["short_part"] == 0
    tight = body_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo/price?p95_latency=51ms"))["asked"]
    assert (tight["replicas_most"], tight["short_part"]) == (6, 1.0)


def test_with_standby_it_is_the_price_of_all_that_is_held(crowd: People, chat: Workload) -> None:
    learned(chat, crowd.world.cluster.at)
    state, rates = State(learned=Learned(counted(np.full(4000, 0.05)), 200.0, slots=4)).learned, [100.0] * 60
    terms = Terms(0.2, Settings().start_seconds, STANDBY)
    Workload.objects.filter(pk=chat.pk).update(standby=2)
    found = body_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo/price"))["now"]
    serving = price(state, rates, terms, 1, 6)
    assert serving is not None
    assert found["replicas_mean"] == pytest.approx(serving.mean + 2, abs=0.005)
    assert found["replicas_most"] == serving.most + 2


def test_before_requests_were_measured_it_is_not_known(crowd: People, chat: Workload) -> None:
    found = body_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo/price"))
    assert found["asked"] is None
    assert found["now"] == {
        "p95_seconds": 0.2, "p95_of": "answer", "gpu_hours_a_day": None, "replicas_mean": None, "replicas_most": None,
        "short_part": None,
    }  # fmt: skip


def test_other_standby_has_its_price_before_it_is_asked_for(crowd: People, chat: Workload) -> None:
    learned(chat, crowd.world.cluster.at)
    path = f"/inferences/{chat.pk}/slo/price"
    told = body_of(crowd.viewer.get(path))
    assert (told["asked"], told["standby"]) == (None, "")
    told = body_of(crowd.viewer.get(f"{path}?standby=2"))
    assert told["asked"]["p95_seconds"] == told["now"]["p95_seconds"]
    assert told["asked"]["replicas_mean"] > told["now"]["replicas_mean"]
    assert told["standby"].startswith("Standby holds up to 2 GPUs, 48 GPU hours a day. It")
    Quota.objects.filter(team=chat.team).update(nominal=4000, borrowing_limit=0)
    told = body_of(crowd.viewer.get(f"{path}?standby=auto&p95_latency=90ms"))
    assert told["asked"]["p95_seconds"] == 0.09
    assert told["standby"].startswith("Standby holds up to 3 GPUs, 72 GPU hours a day, not 5: the team's quotas let")
    assert body_of(crowd.viewer.get(f"{path}?standby=0"))["standby"] == ""
    Workload.objects.filter(pk=chat.pk).update(standby=1)
    assert body_of(crowd.viewer.get(path))["standby"].startswith("Standby holds up to 1 GPU,")
    for wrong in ("-1", "some", "1.5", "99999"):
        assert fields_of(crowd.viewer.get(f"{path}?standby={wrong}")) == ["standby"]


@pytest.mark.parametrize("text", ["0s", "2h", "soon", "100"])
def test_a_latency_that_cannot_be_names_the_field(crowd: People, chat: Workload, text: str) -> None:
    assert fields_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo/price?p95_latency={text}")) == ["p95_latency"]


def test_the_form_says_it_while_one_types(crowd: People, chat: Workload) -> None:
    client = Client()
    client.force_login(crowd.admin.user)
    form = client.get(f"/services/{chat.pk}/change").content.decode()
    assert f'hx-get="/services/{chat.pk}/price"' in form
    assert 'id="f-objective-p95-latency"' in form

    def said(typed: str) -> str:
        answer = client.get(f"/services/{chat.pk}/price", {"objective.p95_latency": typed})
        assert answer.status_code == 200
        return answer.content.decode().strip()

    assert said("90ms") == "What it costs is known once requests of this service were measured."
    learned(chat, crowd.world.cluster.at)
    assert "At the load of the last day 90 ms takes about" in said("90ms")
    assert "; 200 ms, as it is now, " in said("90ms")
    assert "needs more replicas than its max, 6" in said("51ms")
    for half_typed in ("", "9", "90m", "x" * 5000, "0s", "\x00"):
        assert "90 ms" not in said(half_typed)


def test_other_teams_are_not_told(crowd: People, chat: Workload) -> None:
    body_of(crowd.outsider.get(f"/inferences/{chat.pk}/slo/price"), 404)
    client = Client()
    client.force_login(crowd.outsider.user)
    assert client.get(f"/services/{chat.pk}/price").status_code == 404
