"""Shares and budgets over REST."""

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


def test_what_cannot_be_a_budget_is_refused_with_its_field(api: People) -> None:
    assert "gpu_hours" in fields_of(api.platform.send("PUT", "/teams/red/budgets/week", {"gpu_hours": 0}), 400)
    assert "period" in fields_of(api.platform.send("PUT", "/teams/red/budgets/year", {"gpu_hours": 5}), 422)
    assert api.platform.send("PUT", "/teams/none/budgets/week", {"gpu_hours": 5}).status_code == 404
