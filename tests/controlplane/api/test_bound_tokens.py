"""A token that is bound to one team, of somebody who has a role in another: nothing of the other comes out."""

from typing import Any

import pytest

from controlplane.benchmarks.harness import tenants
from controlplane.benchmarks.harness.tenants import BLUE, MARKS, RED, Person
from controlplane.benchmarks.reliability.authorization import OTHER, OWN, Cell, path_of
from controlplane.models import Membership, Notice, NotificationRule, Role, SavedView, Team
from controlplane.security import authorization
from controlplane.services.accounts import tokens
from controlplane.services.notifications import subscriptions
from controlplane.services.scheduling.clock import database_now

pytestmark = pytest.mark.django_db
MARK = MARKS[BLUE]


@pytest.fixture
def made(db: None, settings: Any) -> tenants.Tenants:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return tenants.fill()


@pytest.fixture
def bound(made: tenants.Tenants) -> Person:
    """A member of red, who is admin of blue as well, by a token of red."""
    person = next(one for one in made.people if one.role == "member")
    user, blue = person.user, Team.objects.get(name=BLUE)
    assert user is not None
    Membership.objects.create(user=user, team=blue, role=Role.ADMIN)
    for team in (RED, BLUE):
        Notice.objects.create(
            user=user, key=team, matter="ended", team=team, title=MARKS[team], cluster_at=0.0, at=database_now()
        )
        subscriptions.save(user=user, matter="budget", team=Team.objects.get(name=team))
    SavedView.objects.create(user=user, name=f"{MARK} of blue", query=f"team={BLUE}&phase=waiting")
    tokens.create(user=user, name=f"{MARK} deploys", team=blue)
    return Person("bound", RED, user, tokens.create(user=user, name="bound", team=Team.objects.get(name=RED)).secret)


def test_no_address_tells_a_bound_token_of_another_team(made: tenants.Tenants, bound: Person) -> None:
    told, asked = [], 0
    whole = Person("whole", RED, bound.user, tokens.create(user=_user(bound), name="whole").secret)
    seen_by_whole = 0
    for route in authorization.routes():
        if not route.address.startswith("api/v1/"):
            continue
        for target in (OWN, OTHER):
            path = path_of(Cell(None, route, "GET", bound, target), made)
            answer = bound.ask("GET", path)
            asked += 1
            if not answer.streaming and MARK in answer.content.decode():
                told.append(path)
            other = whole.ask("GET", path)
            seen_by_whole += not other.streaming and MARK in other.content.decode()
    assert not told
    assert asked > 100
    assert seen_by_whole > 10, "the mark is where somebody who may would find it"


def test_a_bound_token_reads_and_changes_the_notices_and_rules_of_its_team_alone(bound: Person) -> None:
    notices = bound.ask("GET", "/api/v1/notices").json()["results"]
    assert {one["team"] for one in notices} == {RED}
    mine = bound.ask("GET", "/api/v1/notification-subscriptions").json()["results"]
    assert [one["team"] for one in mine] == [RED]
    others = NotificationRule.objects.get(user=bound.user, team__name=BLUE)
    assert bound.ask("DELETE", f"/api/v1/notification-subscriptions/{others.pk}").status_code == 404
    assert bound.ask("POST", "/api/v1/notification-subscriptions", {"event_type": "ended"}).status_code == 403
    assert (
        bound.ask("POST", "/api/v1/notification-subscriptions", {"event_type": "ended", "team": BLUE}).status_code
        == 404
    )
    assert bound.ask("POST", "/api/v1/notices:read", {}).json() == {"marked": len(notices)}
    assert set(Notice.objects.filter(read_at=None, user=bound.user).values_list("team", flat=True)) == {BLUE}


def _user(person: Person) -> Any:
    assert person.user is not None
    return person.user
