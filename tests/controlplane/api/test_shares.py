"""Shares and budgets over REST."""

from uuid import uuid4

from controlplane.models import Team, Usage
from controlplane.queries.workloads.prices import MILLI_SECONDS_PER_GPU_HOUR
from controlplane.services.scheduling import clock
from tests.controlplane.api.conftest import People, body_of, fields_of


def test_shares_show_what_a_team_owns_is_entitled_to_and_holds(api: People) -> None:
    body_of(
        api.member.post(
            "/workloads",
            {
                "type": "training",
                "name": "one",
                "team": "red",
                "image": "registry.example/app:1",
                "resources": {"gpus": 3},
            },
        ),
        201,
    )
    [row] = body_of(api.viewer.get("/shares"))["results"]
    assert row == {
        "team": "red",
        "pool": "main",
        "nominal_milli": 8000,
        "entitled_milli": 3000,
        "allocated_milli": 0,
        "recent_usage_milli": 0,
        "held_milli": 0,
        "decayed_milli": 0,
    }
    assert {row["team"] for row in body_of(api.platform.get("/shares"))["results"]} == {"red", "blue"}


def test_a_budget_is_set_read_and_taken_away(api: People) -> None:
    path = "/teams/red/budgets/week"
    made = body_of(api.platform.send("PUT", path, {"gpu_hours": 50, "is_hard": True}))
    assert (made["gpu_hours"], made["is_hard"], made["used_hours"], made["is_used_up"]) == (50, True, 0.0, False)
    assert body_of(api.viewer.get(path)) == made
    assert [row["period"] for row in body_of(api.viewer.get("/teams/red/budgets"))["results"]] == ["month", "week"]
    assert api.platform.send("DELETE", path).status_code == 204
    assert api.viewer.get(path).status_code == 404


def test_a_budget_of_no_more_than_what_is_used_is_saved_only_where_that_is_accepted(api: People) -> None:
    path, now = "/teams/red/budgets/week", int(clock.now())
    Usage.objects.create(
        team=Team.objects.get(name="red"), workload=uuid4(), name="w", pool="main", hour=now - now % 3600,
        held=50 * MILLI_SECONDS_PER_GPU_HOUR,
    )  # fmt: skip
    refused = api.platform.send("PUT", path, {"gpu_hours": 50, "is_hard": True})
    assert fields_of(refused, 422) == ["gpu_hours"]
    [fault] = refused.json()["errors"]
    assert "Team red has used 50.0 GPU hours this week already, and 50 is not more: nothing new" in fault["message"]
    assert api.platform.get(path).status_code == 404
    assert body_of(api.platform.send("PUT", path, {"gpu_hours": 50, "accept_used_up": True}))["is_used_up"] is True
    assert body_of(api.platform.send("PUT", path, {"gpu_hours": 50}))["gpu_hours"] == 50  # nothing changes
    assert body_of(api.platform.send("PUT", path, {"gpu_hours": 51, "is_hard": True}))["is_used_up"] is False


def test_what_cannot_be_a_budget_is_refused_with_its_field(api: People) -> None:
    assert "gpu_hours" in fields_of(api.platform.send("PUT", "/teams/red/budgets/week", {"gpu_hours": 0}), 400)
    assert "period" in fields_of(api.platform.send("PUT", "/teams/red/budgets/year", {"gpu_hours": 5}), 422)
    assert api.platform.send("PUT", "/teams/none/budgets/week", {"gpu_hours": 5}).status_code == 404
