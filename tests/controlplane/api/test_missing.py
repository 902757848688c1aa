from typing import Any

import pytest

from controlplane.api.missing import NOTHING, sentence


@pytest.mark.parametrize(
    ("route", "values", "told"),
    [
        ("api/v1/nodes/<str:name>/drain", {"name": "nope"}, "There is no node nope, or you may not see it."),
        (
            "api/v1/teams/<slug:team>/members/<str:username>",
            {"team": "red", "username": "mia"},
            "There is no such member of this team, or you may not see it.",
        ),
        ("api/v1/teams/<slug:name>", {"name": "red"}, "There is no such team, or you may not see it."),
        (
            "api/v1/teams/<slug:team>/quotas/<str:pool>",
            {"team": "red", "pool": "a100"},
            "There is no quota a100 of this team, or you may not see it.",
        ),
        ("api/v1/policies/<int:number>", {"number": 7}, "There is no policy version 7, or you may not see it."),
        ("api/v1/workloads/<uuid:uid>", {"uid": "5f"}, "There is no workload with this uid, or you may not see it."),
        ("api/v1/tokens", {}, NOTHING),
    ],
)
def test_a_404_names_what_its_address_stands_for_and_repeats_no_uid_team_or_person(
    route: str, values: dict[str, Any], told: str
) -> None:
    assert sentence(route, values) == told
