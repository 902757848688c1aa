"""Service accounts: a team's own accounts for CI. They have a role in that team, tokens, and no password."""

import re

from django.db import transaction

from controlplane.models import Membership, Role, Team, Token, User
from controlplane.services.accounts import members
from controlplane.services.audit import events
from controlplane.services.errors import Refused

NAME = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
MAX_LENGTH = 40
MAX_OF_TEAM = 50


@transaction.atomic
def create(*, team: Team, name: str, role: Role, actor: str) -> User:
    """A new service account, `TEAM/NAME`; an ended one of that name comes back, without its tokens. Raises Refused."""
    if len(name) > MAX_LENGTH or not re.fullmatch(NAME, name):
        message = f"name is not valid. Use at most {MAX_LENGTH} of a-z, 0-9 and -, such as github-actions."
        raise Refused(422, "BadName", "name", message)
    Team.objects.select_for_update(no_key=True).select_related(None).get(pk=team.pk)
    live = team.service_accounts.filter(is_active=True)
    if live.count() >= MAX_OF_TEAM:
        raise Refused(409, "TooMany", "", f"{team} has {MAX_OF_TEAM} service accounts. End one that is not used.")
    username = f"{team}/{name}"
    account = User.objects.filter(username=username).first() or User(username=username)
    if account.pk and (account.is_active or account.service_of_id != team.pk):
        raise Refused(409, "NameTaken", "name", f"There is a {username} already. Choose another name.")
    account.service_of, account.is_active = team, True
    account.set_unusable_password()
    account.save()
    members.save(team=team, user=account, role=role, actor=actor)
    events.record(kind="ServiceAccountCreated", actor=actor, team=team.name, data={"user": username})
    return account


@transaction.atomic
def end(*, account: User, actor: str) -> None:
    """Switch a service account off, with its tokens and its role. The row stays: workloads refer to it."""
    team = account.service_of
    if team is None:
        raise ValueError(f"{account} is a person")
    tokens, _ = Token.objects.filter(user=account).delete()
    Membership.objects.filter(user=account).delete()
    User.objects.filter(pk=account.pk).update(is_active=False)
    data = {"user": account.username, "tokens": tokens}
    events.record(kind="ServiceAccountEnded", actor=actor, team=team.name, data=data)
