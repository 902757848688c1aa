"""Saved views, templates, and what a user has seen."""

from typing import Any
from urllib.parse import parse_qs

from django.db.models import Q, QuerySet

from controlplane.models import Preferences, SavedView, Template, User
from controlplane.queries.accounts import access
from controlplane.queries.accounts.access import Verb


def views(user: User) -> QuerySet[SavedView]:
    """The user's saved views; by a token that is bound to a team none that names another one."""
    found = SavedView.objects.filter(user=user)
    teams = access.bound_to(user)
    if teams is None:
        return found
    named = [(pk, parse_qs(query.removeprefix("?")).get("team", [])) for pk, query in found.values_list("pk", "query")]
    return found.filter(pk__among=[pk for pk, names in named if set(names) <= set(teams)])


def view_row(one: SavedView) -> dict[str, Any]:
    """A saved view as the API shows it."""
    return {"id": one.pk, "name": one.name, "query": one.query}


def templates(user: access.Person, *, team: str | None = None, kind: str | None = None) -> QuerySet[Template]:
    """The platform's templates and those of the user's teams."""
    found = Template.objects.select_related("team", "author")
    if not access.is_platform_admin(user):
        found = found.filter(Q(team=None) | Q(team__name__in=access.team_names(user)))
    if team is not None:
        found = found.filter(team__name=team)
    return found if kind is None else found.filter(kind=kind)


def template(user: access.Person, number: int) -> Template | None:
    """One template that the user may see."""
    return templates(user).filter(pk=number).first()


def template_row(one: Template) -> dict[str, Any]:
    """A template as the API shows it."""
    return {
        "id": one.pk,
        "team": one.team.name if one.team else None,
        "name": one.name,
        "about": one.about,
        "type": one.kind,
        "author": one.author.username if one.author else "",
        "version": one.version,
        "job": one.job,
    }


def may_change(user: access.Person, one: Template) -> bool:
    """Whether the user may replace or delete a template: its author while a member, the team's admins, the platform's.

    A platform's template is the platform admins'.
    """
    if access.is_platform_admin(user):
        return True
    if one.team is None:
        return False
    is_theirs = one.author_id == user.pk
    return access.can(user, Verb.SUBMIT if is_theirs else Verb.MANAGE, one.team)


def has_toured(user: User) -> bool:
    """Whether the user has ended the tour or put it away."""
    return Preferences.objects.filter(user=user, has_toured=True).exists()
