"""Teams by Kubernetes' objects: made and given quotas by a platform admin, and nowhere else changed."""

from typing import Any

import pytest

from controlplane.models import NodePool, Quota, Team, User
from controlplane.services.errors import Refused
from controlplane.services.tenancy import quotas
from tests.controlplane.intake.conftest import ANA, ROOT, TEAMS, Kube, team

pytestmark = pytest.mark.django_db
EIGHT = {"pool": "a100", "nominalMilli": 8000}


@pytest.fixture(autouse=True)
def _pools(db: None) -> None:
    for name in ("a100", "l40s"):
        NodePool.objects.create(name=name)


def quotas_of(name: str) -> dict[str, tuple[Any, ...]]:
    columns = ("pool__name", "nominal", "borrowing_limit", "lending_limit", "weight")
    return {pool: rest for pool, *rest in Quota.objects.filter(team__name=name).values_list(*columns)}  # type: ignore[misc]


def told(kube: Kube, name: str) -> tuple[str, str, str]:
    return kube.condition(name, collection=TEAMS)


def test_a_team_is_made_changed_and_read_only_in_weft(kube: Kube) -> None:
    kube.apply(team("nlp", podSecurity="baseline", quotas=[EIGHT, {"pool": "l40s", "nominalMilli": 500}]), ROOT)
    kube.settle()
    row = Team.objects.get(name="nlp")
    assert (row.managed_by, row.pod_security, row.parent) == ("teams.weft.dev", "baseline", None)
    assert quotas_of("nlp") == {"a100": [8000, None, None, 1], "l40s": [500, None, None, 1]}
    assert told(kube, "nlp") == ("True", "Accepted", "")
    assert kube.get("nlp", TEAMS)["status"]["namespace"] == "weft-nlp"
    with pytest.raises(Refused, match="kubectl edit teams.weft.dev nlp"):
        quotas.save(team=row, pool=NodePool.objects.get(name="a100"), nominal=0, actor="root")
    limits = {"borrowingLimitMilli": 4000, "lendingLimitMilli": 2000, "weight": 3}
    kube.apply(team("nlp", parent="red", quotas=[{**EIGHT, **limits}]), ROOT)
    kube.settle()
    assert quotas_of("nlp") == {"a100": [8000, 4000, 2000, 3]}
    row = Team.objects.get(name="nlp")
    assert (row.pod_security, row.parent and row.parent.name) == ("restricted", "red")


def test_one_round_makes_parents_that_stand_behind_their_children(kube: Kube) -> None:
    kube.apply(team("child", parent="parent"), ROOT)
    kube.apply(team("parent"), ROOT)
    kube.settle()
    found = Team.objects.get(name="child").parent
    assert found is not None
    assert found.name == "parent"


def test_a_team_made_in_weft_is_not_overwritten_unless_the_object_adopts_it(kube: Kube) -> None:
    kube.apply(team("red", quotas=[EIGHT]), ROOT)
    kube.settle()
    status, reason, message = told(kube, "red")
    assert (status, reason) == ("False", "Conflict")
    assert "kubectl annotate teams.weft.dev red weft.dev/adopt=true. Else delete the object." in message
    assert quotas_of("red") == {}
    done = kube.kubectl("annotate", "teams.weft.dev", "red", "weft.dev/adopt=true", user=ROOT)
    assert done.returncode == 0, done.stderr
    kube.settle()
    assert told(kube, "red")[1] == "Accepted"
    assert quotas_of("red") == {"a100": [8000, None, None, 1]}


def test_a_team_whose_object_is_gone_stays_and_is_wefts_again(kube: Kube) -> None:
    kube.apply(team("nlp", quotas=[EIGHT]), ROOT)
    kube.settle()
    kube.delete("nlp", TEAMS)
    kube.settle()
    assert Team.objects.get(name="nlp").managed_by == ""
    assert quotas_of("nlp") == {"a100": [8000, None, None, 1]}


@pytest.mark.parametrize(
    ("spec", "reason", "said"),
    [
        ({"parent": "absent"}, "UnknownTeam", "There is no team absent. Name a team there is, or make it first."),
        ({"quotas": [{"pool": "h100", "nominalMilli": 0}]}, "UnknownPool", "Use one of: a100, l40s"),
        ({"quotas": [{"pool": "a100", "nominalMilli": 32}]}, "Invalid", "For 32 GPUs write 32000: 1000 is one GPU."),
        (
            {"quotas": [{**EIGHT, "lendingLimitMilli": 9000}]},
            "BadQuota",
            "lending_limit is 9000 but nominal is 8000. Set lending_limit to at most 8000.",
        ),
        ({"parent": "nlp"}, "UnknownTeam", "There is no team nlp."),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(kube: Kube, spec: dict[str, Any], reason: str, said: str) -> None:
    kube.apply(team("nlp", **spec), ROOT)
    kube.settle()
    assert told(kube, "nlp")[:2] == ("False", reason)
    assert said in told(kube, "nlp")[2]
    assert not Team.objects.filter(name="nlp").exists()


def test_the_server_refuses_a_quota_twice_and_levels_that_there_are_not(kube: Kube) -> None:
    assert "duplicate entries for key" in kube.refusal(team("nlp", quotas=[EIGHT, EIGHT]), ROOT)
    assert "spec.podSecurity" in kube.refusal(team("nlp", podSecurity="privileged"), ROOT)
    assert "cannot patch resource" in kube.refusal(team("nlp"), ANA)


def test_a_kubernetes_admin_who_is_no_admin_here_makes_no_team(kube: Kube) -> None:
    User.objects.filter(username="root").update(is_superuser=False)
    kube.apply(team("nlp"), ROOT)
    kube.settle()
    assert told(kube, "nlp")[:2] == ("False", "Forbidden")
