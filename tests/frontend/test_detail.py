"""A workload's events, metrics and cost; search; the tour; pages that say what went wrong."""

import json
from typing import Any

import pytest

from controlplane.models import Event, PlacementState, Preferences, Usage, Workload, WorkloadSample
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document


def tab(visit: Visit, w: Workload, name: str, who: str = "mel") -> str:
    return visit(who).get(f"/workloads/{w.pk}/?tab={name}").content.decode()


def test_all_events_are_listed_a_page_at_a_time_with_their_data(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "busy", "nlp"))
    Event.objects.bulk_create(
        Event(
            at="2026-01-01T00:00:00Z", cluster_at=NOW, actor="loop:schedule", kind="Waiting", team="nlp", workload=w.pk,
            name=w.name, phase="Queued", message=f"message {i}.", data={"number": i}, cycle=i + 1,
        )
        for i in range(70)
    )  # fmt: skip
    client, url, seen = visit("mel"), f"/workloads/{w.pk}/?tab=events", []
    while url:
        answer = client.get(url)
        seen += [event.message for event in answer.context["events"]]
        url = answer.context["older"]
    every = list(Event.objects.filter(workload=w.pk).order_by("-id").values_list("message", flat=True))
    assert seen == every
    assert len(seen) >= 70
    page = tab(visit, w, "events")
    assert "round 70" in page
    assert "&quot;number&quot;: 69" in page


def sampled(w: Workload) -> None:
    WorkloadSample.objects.create(workload=w.pk, at=NOW - 300, duty=0.5, memory=2048, step_seconds=None)
    WorkloadSample.objects.create(workload=w.pk, at=NOW, duty=0.756, memory=4096, step_seconds=0.25)


def test_metrics_are_charts_with_a_table_of_the_same_numbers(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "t", "nlp"), Phase.RUNNING)
    assert "Nothing has been measured yet." in tab(visit, w, "metrics")
    sampled(w)
    assert tab(visit, w, "metrics").count("data-chart=") == 3
    figures = {}
    for name in ("duty", "memory", "step"):
        answer = visit("mel").get(f"/workloads/{w.pk}/measured/{name}")
        figures[name] = json.loads(answer.content)["data"][0]["y"]
    assert figures == {"duty": [50.0, 75.6], "memory": [2.0, 4.0], "step": [None, 0.25]}
    table = tab(visit, w, "metrics&view=table")
    assert [text in table for text in ("75 %", "4 GiB", "250 ms", "–")] == [True] * 4
    assert visit("mel").get(f"/workloads/{w.pk}/measured/evil").status_code == 404
    assert visit("out").get(f"/workloads/{w.pk}/measured/duty").status_code == 404


def test_what_runs_says_how_many_run_and_how_busy_their_gpus_are(bare: World, visit: Visit) -> None:
    w = bare.add(document("training", "t", "nlp"), Phase.RUNNING)
    w.placements.create(attempt=1, rank=0, node="n", pool="a100", state="Bound", pod_phase="Running")
    Workload.objects.filter(pk=w.pk).update(started_at=NOW - 100)
    assert f">1/{w.workers} running</span>" in visit("mel").get(f"/workloads/{w.pk}/").content.decode()
    sampled(w)
    for page in (f"/workloads/{w.pk}/", "/workloads/"):
        assert f">1/{w.workers} running, 75 % GPU</" in visit("mel").get(page).content.decode()
    Workload.objects.filter(pk=w.pk).update(started_at=NOW + 1)  # a new attempt, of which there is no sample yet
    assert "75 % GPU" not in visit("mel").get("/workloads/").content.decode()


def test_what_a_share_uses_is_said_not_to_be_known(bare: World, visit: Visit) -> None:
    w = bare.add(document("notebook", "n", "nlp"), Phase.RUNNING)
    WorkloadSample.objects.create(workload=w.pk, at=NOW, duty=None, memory=None)
    page = tab(visit, w, "metrics")
    assert "its GPU is shared" in page
    assert "data-chart=" not in page
    assert "Step time" not in page


def test_cost_is_gpu_hours_at_the_pools_price_in_the_currency_that_is_set(
    bare: World, visit: Visit, settings: Any
) -> None:
    w = bare.add(document("training", "t", "nlp"), Phase.RUNNING)
    assert "so there is no cost" in tab(visit, w, "cost")
    Usage.objects.create(
        team=w.team, workload=w.pk, name=w.name, pool="a100", hour=0, held=10 * 3_600_000, computed=5 * 3_600_000
    )
    settings.CURRENCY = "EUR"
    page = tab(visit, w, "cost")
    assert "<b>36.70\N{NO-BREAK SPACE}EUR</b>" in page
    assert "Cost, EUR</th>" in page
    assert "10.0 GPU-h" in page


# --- search -----------------------------------------------------------------------------------


def test_search_links_to_what_it_finds(world: World, visit: Visit) -> None:
    chat = Workload.objects.get(name="chat")
    page = visit("mel").get("/search?q=chat", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page
    assert f'href="/workloads/{chat.pk}/"' in page
    every = visit("admin").get("/search?q=a").content.decode()
    assert 'href="/nodes/a100-00/"' in every
    assert 'href="/workloads/?team=search"' in every
    assert "chat" not in visit("out").get("/search?q=chat").content.decode().split("<section")[1].split("“")[0]


def test_search_says_what_to_do_when_there_is_nothing(bare: World, visit: Visit) -> None:
    assert "No name contains “zzz”." in visit("mel").get("/search?q=zzz").content.decode()
    assert visit("mel").get("/search?q=%00%ff").status_code == 200


# --- the tour ---------------------------------------------------------------------------------


def test_the_tour_comes_until_it_is_dismissed_and_again_when_asked(bare: World, visit: Visit) -> None:
    client = visit("mel")
    page = client.get("/").content.decode()
    assert page.count("<li data-at=") == 3
    assert client.post("/tour/done", headers={"HX-Request": "true"}).status_code == 204
    assert 'id="tour"' not in client.get("/").content.decode()
    assert 'id="tour"' in client.get("/?tour=1").content.decode()
    assert 'id="tour"' in visit("vic").get("/").content.decode()  # everybody's own
    assert Preferences.objects.get().user.username == "mel"


# --- what went wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("who", "method", "path", "status", "says"),
    [
        ("mel", "get", "/nowhere/", 404, "Search for a workload, team or node"),
        ("vic", "get", "/submit/", 403, "An admin of the team can change your role"),
    ],
)
def test_an_error_page_says_what_to_do_next(
    bare: World, visit: Visit, who: str, method: str, path: str, status: int, says: str
) -> None:
    answer = getattr(visit(who), method)(path)
    page = answer.content.decode()
    assert answer.status_code == status
    assert says in page
    assert "What you can do" in page
    assert 'href="/workloads/"' in page


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "429", "500"])
def test_error_pages_need_no_database(name: str) -> None:
    from django.template.loader import render_to_string

    page = render_to_string(f"{name}.html")
    assert "What you can do" in page
    assert page.count("<li>") >= 2


def test_a_running_elastic_gang_says_with_how_many_workers_it_runs_and_why_no_more(bare: World, visit: Visit) -> None:
    elastic = bare.add(document("training", "elastic", "nlp", workers={"count": 2, "min": 1, "max": 3}), Phase.RUNNING)
    fixed = bare.add(document("training", "fixed", "nlp", workers={"count": 2}), Phase.RUNNING)
    bare.place(elastic, PlacementState.BOUND)
    size = "It runs with 2 of at most 3 workers; it asked for 2, and its minimum is 1."
    page = tab(visit, elastic, "why")
    assert size in page
    assert "2/2 running" in page
    assert "of at most" not in tab(visit, fixed, "why")
    elastic.scaled_at = NOW - 10
    elastic.save()
    assert f"{size} It started or changed lately, so it does not grow before" in tab(visit, elastic, "why")
