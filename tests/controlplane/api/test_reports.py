"""Reports of a period: hours and money by what they are grouped by, objectives kept, JSON and CSV alike."""

import csv
import io
import uuid
from decimal import Decimal
from typing import Any

import pytest

from controlplane.models import ClusterState, NodePool, ServiceDay, ServiceWindow, Team, Usage, Workload
from tests.controlplane.api.conftest import Caller, People, body_of, caller, fields_of
from tests.controlplane.state import START

DAY = 86_400
GPU_HOUR = 3_600_000


@pytest.fixture
def used(api: People) -> People:
    """Two teams on two pools at two prices, on Thursday, Friday and the Monday after."""
    ClusterState.objects.update(now=START + 10 * DAY)
    NodePool.objects.filter(name="main").update(price_per_gpu_hour=Decimal("2.5"))
    NodePool.objects.create(name="old", price_per_gpu_hour=Decimal("1"))
    rows = (("red", "mia", "main", 0, 10), ("red", "", "old", 1, 4), ("red", "mia", "main", 4, 2),
            ("blue", "bob", "main", 0, 6))  # fmt: skip
    for team, user, pool, day, hours in rows:
        Usage.objects.create(
            team=Team.objects.get(name=team), workload=uuid.uuid4(), name="job", user=user, pool=pool,
            hour=int(START) + day * DAY, held=hours * GPU_HOUR, computed=hours * GPU_HOUR // 2,
        )  # fmt: skip
    return api


def rows_of(api: People, query: str, **who: Any) -> list[dict[str, Any]]:
    caller = who.get("caller", api.platform)
    rows: list[dict[str, Any]] = body_of(caller.get(f"/reports/usage?{query}"))["rows"]
    return rows


def test_cost_is_held_hours_times_the_pools_price(used: People) -> None:
    rows = rows_of(used, "granularity=all")
    assert [(r["team"], r["allocated_gpu_hours"], r["idle_gpu_hours"], r["cost"]) for r in rows] == [
        ("red", 16.0, 8.0, 34.0),
        ("blue", 6.0, 3.0, 15.0),
    ]


@pytest.mark.parametrize(
    ("step", "starts"),
    [
        ("day", ["2026-01-01", "2026-01-02", "2026-01-05"]),
        ("week", ["2025-12-29", "2026-01-05"]),
        ("month", ["2026-01-01"]),
    ],
)
def test_steps_are_days_weeks_from_monday_and_months(used: People, step: str, starts: list[str]) -> None:
    rows = rows_of(used, f"granularity={step}", caller=used.member)
    assert [row["start"][:10] for row in rows if row["team"] == "red"] == starts


def test_it_is_grouped_by_any_of_team_user_and_pool(used: People) -> None:
    rows = rows_of(used, "granularity=all&group_by=user,pool")
    assert {(r["user"], r["pool"]): r["cost"] for r in rows} == {
        ("mia", "main"): 30.0, ("", "old"): 4.0, ("bob", "main"): 15.0,
    }  # fmt: skip


def test_hours_by_team_are_everybodys_and_costs_only_of_ones_own_teams(used: People) -> None:
    def told(caller: Caller) -> dict[str, tuple[float, float | None]]:
        rows = rows_of(used, "granularity=all", caller=caller)
        return {row["team"]: (row["allocated_gpu_hours"], row["cost"]) for row in rows}

    assert told(used.viewer) == {"red": (16.0, 34.0), "blue": (6.0, None)}
    assert told(used.outsider) == {"red": (16.0, None), "blue": (6.0, None)}
    assert told(used.platform) == {"red": (16.0, 34.0), "blue": (6.0, 15.0)}
    text = used.viewer.get("/reports/usage?granularity=all&format=csv").content.decode()
    assert [line.split(",")[1:] for line in text.splitlines()[1:]] == [
        ["red", "16.0", "8.0", "8.0", "34.0", "16.0"],  # the last column is the first one's old name
        ["blue", "6.0", "3.0", "3.0", "", "6.0"],
    ]


def test_a_role_in_a_team_above_is_one_in_the_team(used: People) -> None:
    above = Team.objects.create(name="colours")
    Team.objects.filter(name="red").update(parent=above)
    asks = caller("ana", "colours", "viewer")
    assert {row["team"]: row["cost"] for row in rows_of(used, "granularity=all", caller=asks)} == {
        "red": 34.0,
        "blue": None,
    }


@pytest.mark.parametrize("group_by", ["user", "pool", "team,user", "team,pool"])
def test_who_used_what_in_a_team_is_that_teams_own(used: People, group_by: str) -> None:
    assert "bob" not in used.viewer.get(f"/reports/usage?group_by={group_by}").content.decode()
    assert sum(row["allocated_gpu_hours"] for row in rows_of(used, f"group_by={group_by}", caller=used.viewer)) == 16.0
    assert rows_of(used, f"group_by={group_by}", caller=used.outsider) == []


def test_prices_are_for_people_with_a_role_in_some_team(used: People) -> None:
    def prices(caller: Caller) -> list[float | None]:
        return [pool["price_per_gpu_hour"] for pool in body_of(caller.get("/node-pools"))["results"]]

    assert prices(used.viewer) == prices(used.platform) == [2.5, 1.0]
    assert prices(used.outsider) == [None, None]


def test_as_csv_it_has_the_same_rows_and_no_formula(used: People) -> None:
    Usage.objects.filter(user="bob").update(user="=cmd()")
    answer = used.platform.get("/reports/usage?granularity=all&group_by=user&format=csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))
    assert [row["user"] for row in rows] == ["mia", "'=cmd()", ""]
    assert [float(row["cost"]) for row in rows] == [30.0, 15.0, 4.0]


@pytest.mark.parametrize("report", ["usage", "slo"])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=yesterday", "from"),
        ("format=xlsx", "format"),
    ],
)
def test_a_report_that_cannot_be_names_the_field(api: People, report: str, query: str, field: str) -> None:
    assert fields_of(api.viewer.get(f"/reports/{report}?{query}")) == [field]


def test_a_report_is_grouped_by_what_there_is_only(api: People) -> None:
    assert fields_of(api.viewer.get("/reports/usage?group_by=colour")) == ["group_by.0"]
    assert fields_of(api.viewer.get("/reports/usage?group_by=team,team")) == ["group_by"]
    assert fields_of(api.viewer.get("/reports/slo?group_by=team")) == ["group_by"]


def test_a_service_is_held_to_its_objective_over_the_period(api: People) -> None:
    chat = api.world.submit("chat", kind="inference")  # 99.9 % within 200 ms
    ClusterState.objects.update(now=START + DAY)
    for minute, over in ((0, 1), (1, 3), (60 * 24 * 3, 500)):
        ServiceWindow.objects.create(workload=chat.pk, start=START + 60 * minute, requests=1000, over=over)
    (row,) = body_of(api.viewer.get("/reports/slo"))["rows"]
    assert (row["team"], row["service"], row["requests"], row["over_objective"]) == ("red", "chat", 2000, 4)
    assert (row["attainment"], row["budget_left"], row["is_kept"]) == (0.998, -1.0, False)
    assert body_of(api.blue_member.get("/reports/slo"))["rows"] == []
    text = api.viewer.get("/reports/slo?format=csv").content.decode()
    assert text.splitlines()[1].startswith(f"red,chat,{chat.pk},0.999,0.2,2000,4,0.998,-1.0,False")


# --- the report of a month ------------------------------------------------------------------------


def day_of(w: Workload, day: int, over: int, **columns: Any) -> None:
    """A day of a service, counted from 1 January 2026: 1,440,000 requests and so many late ones."""
    start = START + (day - 1) * DAY
    met = 1440 - columns.get("at_risk", 0) - columns.get("violated", 0) - columns.get("unknown", 0)
    ServiceDay.objects.create(
        workload=w.pk, day=int(start), until=start + DAY, availability=0.999, p95_seconds=0.2, requests=1_440_000,
        over=over, met=met, worst_start=start + 600 if over else None, worst_requests=1000 if over else 0,
        worst_over=over // 2, **columns,
    )  # fmt: skip


@pytest.fixture
def kept(api: People) -> People:
    """A service of red with two days of January and one of February, and one of blue."""
    ClusterState.objects.update(now=START + 32 * DAY)
    chat, ranker = api.world.submit("chat", kind="inference"), api.world.submit("ranker", kind="inference", team="blue")
    day_of(chat, 30, 720, at_risk=40, budget_left=0.5)
    day_of(chat, 31, 3600, at_risk=100, violated=200, unknown=10, budget_left=-0.5)
    day_of(chat, 32, 0, budget_left=0.25)
    day_of(ranker, 31, 0, budget_left=1.0)
    used = {"workload": chat.pk, "name": "chat", "user": "mia", "pool": "main", "computed": 0}
    for day, hours in ((29, 8), (30, 4), (31, 100)):
        Usage.objects.create(team=chat.team, hour=int(START) + day * DAY, held=hours * GPU_HOUR, **used)
    return api


def test_a_month_tells_how_a_team_kept_its_objectives(kept: People) -> None:
    found = body_of(kept.viewer.get("/reports/sla?month=2026-01"))
    assert (found["month"], found["from"][:10], found["to"][:10]) == ("2026-01", "2026-01-01", "2026-02-01")
    assert found["noted_until"][:10] == "2026-02-01"
    (row,) = found["rows"]
    assert row == {
        "team": "red", "service": "chat", "workload": row["workload"], "availability_target": 0.999,
        "p95_target_seconds": 0.2, "requests": 2_880_000, "over_objective": 4320, "attainment": 0.9985,
        "is_kept": False, "budget_left": -0.5, "met_minutes": 2880 - 350, "at_risk_minutes": 140,
        "violated_minutes": 200, "not_known_minutes": 10, "allocated_gpu_hours": 12.0,
        "worst_minute": "2026-01-31T00:10:00Z", "worst_minute_requests": 1000, "worst_minute_over_objective": 1800,
        "p95_of": "answer",
    }  # fmt: skip
    (total,) = found["teams"]
    assert (total["team"], total["services"], total["services_kept"], total["services_known"]) == ("red", 1, 0, 1)
    assert (total["requests"], total["violated_minutes"], total["allocated_gpu_hours"]) == (2_880_000, 200, 12.0)


def test_the_running_month_is_the_one_that_is_asked_for_without_a_word(kept: People) -> None:
    found = body_of(kept.viewer.get("/reports/sla"))
    assert (found["month"], [row["budget_left"] for row in found["rows"]]) == ("2026-02", [0.25])
    empty = body_of(kept.viewer.get("/reports/sla?month=2025-11"))
    assert (empty["rows"], empty["teams"], empty["noted_until"]) == ([], [], None)


def test_a_month_is_of_ones_own_teams_and_of_the_one_that_is_named(kept: People) -> None:
    def teams(caller: Caller, query: str = "") -> list[str]:
        return [row["team"] for row in body_of(caller.get(f"/reports/sla?month=2026-01{query}"))["rows"]]

    assert teams(kept.platform) == ["blue", "red"]
    assert teams(kept.platform, "&team=red") == ["red"]
    assert teams(kept.viewer) == teams(kept.viewer, "&team=red") == ["red"]
    assert teams(kept.viewer, "&team=blue") == teams(kept.outsider) == []
    assert teams(kept.blue_member) == ["blue"]


def test_a_month_as_csv_has_the_same_rows_and_no_formula(kept: People) -> None:
    Workload.objects.filter(name="chat").update(name="=cmd()")
    answer = kept.viewer.get("/reports/sla?month=2026-01&format=csv")
    assert answer["Content-Disposition"] == 'attachment; filename="weft-sla-2026-01.csv"'
    (row,) = csv.DictReader(io.StringIO(answer.content.decode(), newline=""))
    assert (row["service"], row["violated_minutes"], row["budget_left"]) == ("'=cmd()", "200", "-0.5")
    assert list(row)[:4] == ["team", "service", "workload", "availability_target"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("month=2026-13", "month"), ("month=2026-1", "month"), ("month=January", "month"), ("team=a%20b", "team"),
     ("from=2026-01-01T00:00:00Z", "from"), ("format=pdf", "format")],
)  # fmt: skip
def test_a_month_that_cannot_be_names_the_field(api: People, query: str, field: str) -> None:
    assert fields_of(api.viewer.get(f"/reports/sla?{query}")) == [field]


def test_a_month_is_read_in_few_statements_however_many_services(kept: People, django_assert_max_num_queries) -> None:
    for n in range(20):
        day_of(kept.world.submit(f"more-{n}", kind="inference"), 30, n, budget_left=0.9)
    with django_assert_max_num_queries(9):  # the token and its user, the roles, the clock, and three of the report
        assert len(body_of(kept.viewer.get("/reports/sla?month=2026-01"))["rows"]) == 21
