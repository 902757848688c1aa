"""The report of a month, as its page and its file tell it."""

import csv
import io

import pytest

from controlplane.models import ServiceDay, Workload
from frontend.views.services import REPORTED
from scheduler.model.workload import Phase
from tests.frontend.conftest import Visit
from tests.frontend.factory import NOW, World, document

DAY = 86_400
TODAY = int(NOW // DAY * DAY)


@pytest.fixture
def chat(bare: World) -> Workload:
    w = bare.add(document("inference", "chat", "nlp"), Phase.RUNNING)
    day(w, TODAY, over=100, met=1300, at_risk=120, violated=20)
    return w


def day(w: Workload, start: int, *, over: int, **minutes: int) -> None:
    ServiceDay.objects.create(
        workload=w.pk, day=start, until=start + DAY, availability=0.99, p95_seconds=0.2, requests=100_000, over=over,
        budget_left=0.42, worst_start=start + 3600, worst_requests=80, worst_over=60, **minutes,
    )  # fmt: skip


def test_a_month_shows_how_long_a_service_stood_how(chat: Workload, visit: Visit) -> None:
    text = visit("mel").get("/services/report/").content.decode()
    for said in (">Kept</span>", "99.900 %", "42 %", "1 of 1", "21 h 40 min", "2 h", "20 min", "60 of 80"):
        assert said in text, said
    assert ">Not known</span>" not in text
    assert "nlp/<wbr>chat" in text


def test_the_services_page_leads_to_it(chat: Workload, visit: Visit) -> None:
    assert 'href="/services/report/?team=nlp"' in visit("mel").get("/services/?team=nlp").content.decode()


def test_other_months_and_teams_can_be_chosen(chat: Workload, visit: Visit) -> None:
    day(chat, TODAY - 40 * DAY, over=2000, met=1440)
    answer = visit("admin").get("/services/report/")
    listed = list(answer.context["months"])
    assert len(listed) in (2, 3)
    assert listed == sorted(listed, reverse=True)
    before = visit("admin").get(f"/services/report/?month={listed[-1]}&team=nlp").content.decode()
    assert ">Missed</span>" in before
    assert f"SLA report {listed[-1]}" in before
    for odd in ("?month=2026-13", "?month=%00", "?month=9999-12", "?team=nowhere", "?month=1970-01&team=a%20b"):
        assert visit("admin").get(f"/services/report/{odd}").status_code == 200, odd


def test_a_team_that_one_has_no_role_in_is_not_told_of(chat: Workload, visit: Visit) -> None:
    text = visit("out").get("/services/report/?team=nlp").content.decode()
    assert "chat" not in text
    assert "No service with an objective is known of in this month." in text
    assert "chat" not in visit("out").get("/services/report.csv?team=nlp").content.decode()


def test_the_file_has_the_rows_of_the_page(chat: Workload, visit: Visit) -> None:
    Workload.objects.filter(pk=chat.pk).update(name="=cmd()")
    answer = visit("mel").get("/services/report.csv")
    (row,) = csv.DictReader(io.StringIO(answer.content.decode(), newline=""))
    assert (row["service"], row["requests"], row["at_risk_minutes"]) == ("'=cmd()", "100000", "120")
    assert "weft-sla-" in answer["Content-Disposition"]


def test_a_report_needs_few_statements(
    chat: Workload, bare: World, visit: Visit, django_assert_max_num_queries: object
) -> None:
    for n in range(15):
        day(bare.add(document("inference", f"more-{n}", "nlp"), Phase.RUNNING), TODAY, over=n, met=1440)
    client = visit("mel")
    client.get("/services/report/")
    with django_assert_max_num_queries(16):  # type: ignore[operator]
        client.get("/services/report/")


def test_of_many_services_the_page_shows_those_that_stood_worst(chat: Workload, bare: World, visit: Visit) -> None:
    """50 of them at first; the file has all."""
    w = bare.add(document("inference", "zz-missed", "nlp"), Phase.RUNNING)
    day(w, TODAY, over=5000, met=1000, violated=440)
    others = [bare.add(document("inference", f"calm-{n}", "nlp"), Phase.STOPPED) for n in range(REPORTED)]
    for n, other in enumerate(others):
        day(other, TODAY, over=0, met=1440 - n % 2, unknown=n % 2)
    mel = visit("mel")
    answer = mel.get("/services/report/")
    shown = [line.name for line in answer.context["lines"]]
    assert shown[:2] == ["zz-missed", "chat"]
    assert len(shown) == REPORTED
    text = answer.content.decode()
    assert 'the 50 that stood worst of 52; <a href="?lines=all">show more</a>' in text
    whole = mel.get("/services/report/?lines=all")
    assert len(whole.context["lines"]) == REPORTED + 2
    assert "show more" not in whole.content.decode()
    assert len(mel.get("/services/report.csv").content.decode().splitlines()) == REPORTED + 3
