"""Which of our users a user of Kubernetes is, by the settings."""

from pathlib import Path
from typing import Any

import pytest

from controlplane.kubeobjects import usernames
from controlplane.models import Team, User
from controlplane.queries.accounts.kubernetes_users import resolve, unknown
from tests.controlplane.test_settings import PRODUCTION, STRONG, started

pytestmark = pytest.mark.django_db
DEPLOYER = "system:serviceaccount:argocd:deployer"


@pytest.fixture(autouse=True)
def _people() -> None:
    User.objects.create(username="ana")
    User.objects.create(username="gone", is_active=False)
    User.objects.create(username="nlp/ci", service_of=Team.objects.create(name="nlp"))


def found(username: str) -> str | None:
    user = resolve(username)
    return user.username if user else None


@pytest.mark.parametrize("username", ["ana", "oidc:ana", "-ana", DEPLOYER, ""])
def test_without_a_setting_no_kubernetes_user_is_ours(username: str) -> None:
    assert found(username) is None
    assert "Ask a platform admin to set WEFT_KUBERNETES_USER_PREFIX or WEFT_KUBERNETES_USERS" in unknown(username)


def test_a_prefix_is_taken_off_and_names_are_compared_exactly(settings: Any) -> None:
    settings.KUBERNETES_USER_PREFIX = "oidc:"
    assert found("oidc:ana") == "ana"
    assert [found(n) for n in ("ana", "oidc:Ana", "oidc:oidc:ana", "OIDC:ana", "oidc:", "oidc:ana ", "oidc:\0")] == [
        None
    ] * 7


def test_a_user_that_is_switched_off_or_was_never_here_is_told_so(settings: Any) -> None:
    settings.KUBERNETES_USER_PREFIX = "oidc:"
    assert found("oidc:gone") is found("oidc:new") is None
    assert "is new in Weft, and there is no such active user. Sign in to Weft once" in unknown("oidc:new")


def test_a_service_account_is_ours_only_where_the_settings_name_it(settings: Any) -> None:
    settings.KUBERNETES_USER_PREFIX = "oidc:"
    assert found("oidc:nlp/ci") is None
    settings.KUBERNETES_USERS = usernames.pairs([f"{DEPLOYER}=nlp/ci", "kubernetes-admin=ana"])
    assert (found(DEPLOYER), found("kubernetes-admin")) == ("nlp/ci", "ana")


def test_a_dash_means_equal_names_but_kubernetes_own_are_nobodys(settings: Any) -> None:
    User.objects.create(username="admin")
    settings.KUBERNETES_USER_PREFIX = usernames.NO_PREFIX
    assert found("ana") == "ana"
    User.objects.create(username="system:admin")
    assert found("system:admin") is None


def test_a_bad_entry_is_refused_at_the_start(tmp_path: Path) -> None:
    done = started(tmp_path, **PRODUCTION, SECRET_KEY=STRONG, WEFT_KUBERNETES_USERS=f"{DEPLOYER}")
    assert done.returncode == 1
    assert f"WEFT_KUBERNETES_USERS has the entry {DEPLOYER!r}. Write kubernetes-user=our-name" in done.stderr
    assert "Traceback" not in done.stderr
