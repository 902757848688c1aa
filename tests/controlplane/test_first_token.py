"""An objective of the time to the first token, from the job file to the report of a month."""

from typing import Any

import numpy as np
import pytest
from django.test import Client

from autoscaler.latency import FIRST_TOKEN, Within
from autoscaler.law import State
from autoscaler.observed import FirstToken, Learned, counted
from autoscaler.sla import Standing
from controlplane.domain import lawstate
from controlplane.jobspec.spec import SpecError
from controlplane.loops import account
from controlplane.models import ServiceState, ServiceWindow, Workload
from controlplane.queries.reports import reports, sla
from controlplane.queries.scheduling import scaling
from controlplane.services.tenancy import usage
from controlplane.services.workloads import workloads as services
from tests.controlplane.api.conftest import People, body_of, fields_of, people
from tests.controlplane.state import job

pytestmark = pytest.mark.django_db
FIRST = {"p95_first_token": "500ms", "availability": 99.9, "window": "28d"}


@pytest.fixture
def crowd(settings: Any) -> People:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return people()


@pytest.fixture
def chat(crowd: People) -> Workload:
    made = crowd.world.submit("chat", kind="inference", replicas={"min": 1, "max": 6}, objective=FIRST)
    crowd.world.run(made, "a")
    return made


@pytest.mark.parametrize(
    ("objective", "says"),
    [
        ({"p95_latency": "1s", "p95_first_token": "1s"}, "objective has both p95_latency and p95_first_token, and"),
        ({"availability": 99.9}, "objective has neither p95_latency nor p95_first_token. Add p95_latency: 200ms for"),
    ],
)
def test_an_objective_has_exactly_one_latency(objective: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError) as refused:
        job("chat", kind="inference", objective=objective)
    (error,) = refused.value.errors
    assert (error.field, error.message.startswith(says)) == ("objective", True), error


def test_a_job_file_of_a_first_token_is_stored_as_one_latency_and_what_it_is_of() -> None:
    first = job("chat", kind="inference", objective=FIRST).normalised()["objective"]
    answer = job("chat", kind="inference", objective={"p95_latency": "500ms"}).normalised()["objective"]
    assert first == {"p95_seconds": 0.5, "availability": 0.999, "window_seconds": 28 * 86_400.0, "of": FIRST_TOKEN}
    assert "of" not in answer, "as it always was"


def test_the_account_loop_asks_for_first_tokens_and_the_autoscaler_decides_by_them(
    crowd: People, chat: Workload
) -> None:
    assert usage.serving() == {str(chat.pk): Within(0.5, FIRST_TOKEN)}
    known = scaling.metrics(scaling.serving(), {}).services[str(chat.pk)]
    assert known.objective is not None
    assert known.objective.within == Within(0.5, FIRST_TOKEN)


def test_what_is_not_measured_is_not_known_and_says_who_would_have_to_tell(crowd: People, chat: Workload) -> None:
    found = body_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo"))
    assert (found["standing"], found["p95_of"], found["p95_target_seconds"]) == ("not known", FIRST_TOKEN, 0.5)
    assert found["unknown_why"].startswith("No first token was measured: no request came, or nobody tells when")
    at = crowd.world.cluster.at
    ServiceWindow.objects.create(workload=chat.pk, start=at - 60, requests=600, over=0, p95_seconds=0.3)
    found = body_of(crowd.viewer.get(f"/inferences/{chat.pk}/slo"))
    assert (found["standing"], found["unknown_why"], found["p95_seconds"]) == ("met", "", 0.3)


def test_a_service_that_changes_to_first_tokens_is_judged_anew(crowd: People) -> None:
    chat = crowd.world.submit("plain", kind="inference", objective={"p95_latency": "500ms"})
    crowd.world.run(chat, "a")
    at = crowd.world.cluster.at
    ServiceWindow.objects.create(workload=chat.pk, start=at - 60, requests=600, over=600, p95_seconds=3.0)
    assert sla.standings(at, [chat.pk])[chat.pk] is Standing.VIOLATED
    services.patch(workload=chat, changes={"objective": FIRST}, version=None, actor="root")
    chat.refresh_from_db()
    assert chat.objective_since == at
    stand = sla.one(at, chat)
    assert stand is not None
    assert (stand.standing, stand.requests) == (Standing.UNKNOWN, 0)


def test_a_first_token_has_a_price_once_some_were_told_of(crowd: People, chat: Workload) -> None:
    at = crowd.world.cluster.at
    known = Learned(counted(np.full(4000, 2.0)), 8000.0, slots=8)
    row = ServiceState.objects.create(workload=chat.pk, at=at, state=lawstate.plain(State(known)))
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=chat.pk, start=at - 60 * (k + 1), requests=600, over=0, requests_per_second=10.0)
        for k in range(60)
    )
    path = f"/inferences/{chat.pk}/slo/price"
    assert body_of(crowd.viewer.get(path))["now"]["gpu_hours_a_day"] is None
    row.state = lawstate.plain(State(Learned(known.counts, 8000.0, 8, first=FirstToken(counted(np.full(4000, 0.1))))))
    row.save()
    found = body_of(crowd.viewer.get(f"{path}?p95_first_token=120ms"))
    assert (found["now"]["p95_of"], found["asked"]["p95_seconds"]) == (FIRST_TOKEN, 0.12)
    assert found["asked"]["gpu_hours_a_day"] >= found["now"]["gpu_hours_a_day"] >= 24 * 3
    assert fields_of(crowd.viewer.get(f"{path}?p95_first_token=1s&p95_latency=1s")) == ["p95_first_token"]


def test_the_page_the_list_and_the_form_say_first_token(crowd: People, chat: Workload) -> None:
    client = Client()
    client.force_login(crowd.admin.user)
    at = f"/services/{chat.pk}"
    paths = (f"{at}/", "/services/", f"{at}/change", f"/workloads/{chat.pk}/?tab=objective")
    page, rows, form, tab = (client.get(path).content.decode() for path in paths)
    assert "of requests: first token within 500 ms, over" in page
    assert "No first token was measured" in page
    assert "first token within 500 ms" in rows
    assert "first token within 500 ms" in tab and "p95 to first token against the objective" in tab
    assert 'id="f-objective-p95-first-token"' in form and 'value="500ms"' in form
    assert client.get(f"/services/{chat.pk}/history").json()["data"][0]["name"] == "p95 to first token"
    priced = client.get(f"/services/{chat.pk}/price", {"objective.p95_first_token": "90ms"}).content.decode()
    assert priced.strip() == "What it costs is known once requests of this service were measured."


def test_a_report_says_what_the_latency_is_of(crowd: People, chat: Workload) -> None:
    at = crowd.world.cluster.at
    ServiceWindow.objects.bulk_create(
        ServiceWindow(workload=chat.pk, start=at + 60 * k, requests=100, over=k % 2) for k in range(90)
    )
    (line,) = reports.slo(at, at + 7200, None)
    assert (line["p95_target_seconds"], line["p95_of"]) == (0.5, FIRST_TOKEN)
    crowd.world.cluster.at = at + 7200
    crowd.world.observe()
    account.run_once(crowd.world.wiring)
    month = body_of(crowd.viewer.get("/reports/sla"))
    assert [(row["service"], row["p95_of"]) for row in month["rows"]] == [("chat", FIRST_TOKEN)]
    client = Client()
    client.force_login(crowd.admin.user)
    assert "first token within 500 ms" in client.get("/services/report/").content.decode()
