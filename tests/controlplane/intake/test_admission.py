"""Through the admission server: kubectl alone, without a word about authors in any file."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.cluster.kubernetes.api import Api
from controlplane.cluster.kubernetes.connection import find
from controlplane.kubeobjects.names import AUTHOR
from controlplane.manifests import system, teams, webhook
from controlplane.manifests.site import ADMISSION, TeamSpace
from controlplane.models import Membership, Role, Team, User, Workload
from controlplane.testbed.kubernetes import TestCluster
from controlplane.webhook.lookup import WorldLookup
from tests.adopted.rig import HOOKS, Admission
from tests.controlplane.intake.conftest import (
    ANA,
    BEN,
    ROOT,
    SITE,
    STRANGER,
    TEAMS,
    Kube,
    kube_of,
    team,
    text,
    workload,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def asked(
    definitions: TestCluster, kubernetes: TestCluster, transactional_db: None, settings: Any, tmp_path: Path
) -> Iterator[Kube]:
    """The API server asks an admission server that reads the test's database."""
    settings.KUBERNETES_USER_PREFIX = "oidc:"
    site = replace(SITE, has_admission=True)
    kubernetes.apply([one for one in system.system(site) if one["kind"] != "CustomResourceDefinition"])
    kubernetes.apply(one for name in ("red", "blue") for one in teams.team(site, TeamSpace(name)))
    with (
        closing(Api(find(str(kubernetes.kubeconfig(f"weft/{ADMISSION}"))), name="lookups")) as api,
        closing(Admission(WorldLookup(api, site.prefix), tmp_path)) as admission,
        kube_of(kubernetes) as kube,
    ):
        kubernetes.apply(webhook.webhook(replace(site, admission_ca=admission.ca, admission_url=admission.url)))
        try:
            kubernetes.wait_for(lambda: is_asked(kube), "the webhook")
            yield kube
        finally:
            kubernetes.delete(f"{HOOKS}/weft")


def join(name: str, role: Role) -> None:
    """Make this person a member of team red."""
    user, found = User.objects.get(username=name), Team.objects.get(name="red")
    Membership.objects.create(user=user, team=found, role=role)


def is_asked(kube: Kube) -> bool:
    done = kube.kubectl("apply", "--dry-run=server", "-f", "-", user=STRANGER, given=text(workload()))
    return "no such active user" in done.stderr


def applied(kube: Kube, *things: dict[str, Any], user: str = ANA) -> str:
    """What kubectl says against a file; empty if it is applied."""
    done = kube.kubectl("apply", "-f", "-", user=user, given=text(*things))
    return "" if done.returncode == 0 else done.stderr


def test_kubectl_apply_submits_for_the_person_who_ran_it(asked: Kube) -> None:
    assert applied(asked, workload()) == ""
    assert asked.get("hello")["metadata"]["annotations"][AUTHOR] == ANA
    asked.settle()
    row = Workload.objects.select_related("created_by").get()
    assert row.created_by is not None
    assert (row.name, row.created_by.username, row.phase) == ("hello", "ana", "Queued")
    assert applied(asked, workload(maxDuration="1h")) == ""
    asked.settle()
    assert Workload.objects.get().max_seconds == 3600
    assert asked.kubectl("delete", "workload.weft.dev", "hello", "-n", "weft-red").returncode == 0
    asked.settle()
    assert Workload.objects.get().phase == "Stopped"


def test_strangers_others_and_viewers_are_refused_before_anything_is_there(asked: Kube) -> None:
    assert "is stranger in Weft, and there is no such active user. Sign in to Weft once" in applied(
        asked, workload(), user=STRANGER
    )
    assert "There is no team red, or you are not in it. Name one of your teams." in applied(asked, workload(), user=BEN)
    join("ben", Role.VIEWER)
    assert "Your role in team red does not allow this. Ask an admin of the team." in applied(
        asked, workload(), user=BEN
    )
    assert applied(asked, workload()) == ""
    asked.settle()
    deleted = asked.kubectl("delete", "workload.weft.dev", "hello", "-n", "weft-red", user=BEN)
    assert "Your role in team red does not allow this." in deleted.stderr
    assert asked.get("hello")["status"]["phase"] == "Queued"


def test_another_member_may_suspend_but_not_change(asked: Kube) -> None:
    join("ben", Role.MEMBER)
    assert applied(asked, workload()) == ""
    asked.settle()
    assert "Your role in team red does not allow this." in applied(asked, workload(maxDuration="1h"), user=BEN)
    assert applied(asked, workload(suspend=True), user=BEN) == ""
    asked.settle()
    assert Workload.objects.get().phase == "Held"


def test_what_a_schema_cannot_say_is_refused_at_once_with_rests_words(asked: Kube) -> None:
    wrong = workload(resources={"gpus": 1, "memory": "lots"}, env={"LD_PRELOAD": "x.so"})
    said = applied(asked, wrong)
    assert "resources.memory: 'lots' is not a quantity. Write for example 64Gi." in said
    assert "which is reserved: the platform sets it. Remove it." in said
    assert applied(asked, workload(env={"A": "1"})) == ""
    asked.settle()
    assert "labels" not in applied(asked, workload(env={"A": "1"}, labels={"a": "b"}))
    said = applied(asked, workload(env={"A": "1"}, checkpoint={"grace": "45s"}))
    assert "checkpoint cannot change after the submission. Submit a new workload." in said


def test_a_forged_author_is_overwritten(asked: Kube) -> None:
    thing = workload()
    thing["metadata"]["annotations"] = {AUTHOR: ROOT}
    assert applied(asked, thing) == ""
    assert asked.get("hello")["metadata"]["annotations"][AUTHOR] == ANA


def test_teams_are_a_platform_admins(asked: Kube) -> None:
    User.objects.filter(username="root").update(is_superuser=False)
    assert "root is no platform admin of Weft" in applied(asked, team("nlp"), user=ROOT)
    User.objects.filter(username="root").update(is_superuser=True)
    assert applied(asked, team("nlp"), user=ROOT) == ""
    asked.settle()
    assert asked.condition("nlp", collection=TEAMS)[:2] == ("True", "Accepted")
    assert Team.objects.get(name="nlp").managed_by == "teams.weft.dev"
