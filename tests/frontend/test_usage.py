"""Usage and cost: groups, steps and periods in the URL, the same numbers in table, chart and file."""

import csv
import io

import pytest

from controlplane.models import ClusterState, Usage
from tests.frontend.conftest import Visit
from tests.frontend.factory import World, make_user


def figures(visit: Visit, query: str, who: str = "admin") -> dict[str, tuple[float, str]]:
    rows = visit(who).get(f"/usage/?{query}").context["rows"]
    return {row.keys[0]: (row.spent.held / 3_600_000, "" if row.cost is None else f"{row.cost:.2f}") for row in rows}


def test_hours_are_held_hours_and_cost_the_pools_price(world: World, visit: Visit) -> None:
    assert figures(visit, "group=team")["nlp"] == (160.0, "587.20")  # 8 h of 20 GPUs at 3.67
    assert figures(visit, "group=pool") == {"a100": (640.0, "2348.80")}
    assert figures(visit, "group=user") == {"mel": (640.0, "2348.80")}


def test_teams_totals_are_everybodys_and_users_are_ones_own_teams(world: World, visit: Visit) -> None:
    assert set(figures(visit, "group=team", "vic")) == {"nlp", "vision", "search", "speech"}
    assert figures(visit, "group=user", "vic") == {"mel": (160.0, "587.20")}


def test_costs_are_of_teams_in_which_one_has_a_role_in_page_table_and_file(world: World, visit: Visit) -> None:
    hidden = {"vision", "search", "speech"}
    assert {team for team, (_, cost) in figures(visit, "group=team", "vic").items() if not cost} == hidden
    for who, shows in (("vic", {"nlp"}), ("admin", {"nlp", *hidden}), ("out", {"speech"})):
        client = visit(who)
        file = csv.DictReader(io.StringIO(client.get("/usage/export.csv?group=team").content.decode(), newline=""))
        assert {row["team"] for row in file if row["cost"]} == shows
        for view in ("", "&view=table"):
            page = client.get(f"/usage/?group=team{view}").content.decode()
            assert page.count("587.20") >= len(shows)
            assert ("you have no role in this team" in page) == (who != "admin")
            assert ("2,348.80" in page) == (who == "admin")  # of all teams
        assert "cost" not in str(client.get("/usage/chart?group=team").json()).lower()


def test_prices_are_shown_to_people_with_a_role_in_some_team(world: World, visit: Visit) -> None:
    make_user("new")
    assert "Price per GPU-hour" in visit("vic").get("/teams/").content.decode()
    assert "Price per GPU-hour" not in visit("new").get("/teams/").content.decode()
    assert figures(visit, "group=team", "new")["nlp"] == (160.0, "")


def test_the_file_the_table_and_the_chart_tell_the_same(world: World, visit: Visit) -> None:
    client = visit("admin")
    query = "?group=team&step=day&range=30d"
    lines = client.get(f"/usage/{query}&view=table").context["lines"]
    told = [(line.keys[0], round(line.spent.held / 3_600_000, 3)) for line in lines]
    answer = client.get(f"/usage/export.csv{query}")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    file = list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))
    assert [(row["team"], float(row["allocated_gpu_hours"])) for row in file] == told
    figure = client.get(f"/usage/chart{query}").json()
    assert {trace["name"]: sum(trace["y"]) for trace in figure["data"]} == dict.fromkeys(
        ("nlp", "vision", "search", "speech"), 160.0
    )


def test_a_user_name_that_is_a_formula_is_harmless_in_the_file(world: World, visit: Visit) -> None:
    Usage.objects.update(user="=HYPERLINK(1)")
    assert ",'=HYPERLINK(1)," in visit("admin").get("/usage/export.csv?group=user").content.decode()


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("from=2026-01-31&to=2026-01-01", "is after to"),
        ("from=2020-01-01&to=2026-01-01", "more than 366 days"),
        ("from=soon&to=2026-01-01", "must be two dates"),
        ("from=0001-01-01&to=9999-12-31", ""),
    ],
)
def test_a_period_that_cannot_be_is_said_and_the_page_stays(world: World, visit: Visit, query: str, fault: str) -> None:
    answer = visit("mel").get(f"/usage/?{query}")
    assert answer.status_code == 200
    assert 'role="alert"' in answer.content.decode()
    assert fault in answer.content.decode()
    assert visit("mel").get(f"/usage/export.csv?{query}").status_code == 200


def test_a_period_of_two_days_counts_both(world: World, visit: Visit) -> None:
    assert figures(visit, "from=2026-01-01&to=2026-01-01")["nlp"][0] == 160.0
    assert figures(visit, "from=2026-01-02&to=2026-01-02") == {}


def test_a_cluster_that_was_never_seen_has_its_period_from_today(bare: World, visit: Visit) -> None:
    ClusterState.objects.all().delete()
    asked = visit("admin").get("/usage/").context["asked"]
    assert asked.last[:4] >= "2026"
