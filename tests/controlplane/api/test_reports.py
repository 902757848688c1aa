"""Reports of a period: hours and money by what they are grouped by, objectives kept, JSON and CSV alike."""

import csv
import io
import uuid
from decimal import Decimal
from typing import Any

import pytest

from controlplane.models import ClusterState, NodePool, ServiceWindow, Team, Usage
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
