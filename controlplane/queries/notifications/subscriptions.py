"""The subscriptions: active rules, and which of them an event matches."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.db.models import Q

from controlplane.models import NotificationRule, Team, User
from controlplane.outgoing.payload import Said
from controlplane.queries.accounts import access
from controlplane.queries.audit import naming
from controlplane.queries.notifications.event_types import Found


@dataclass(frozen=True, slots=True)
class Rule:
    """An active rule: of a user, or of a webhook. `team` empty: about what the user submitted."""

    pk: int
    matter: str
    team: str
    by_mail: bool
    after_event: int
    user: int | None
    username: str
    webhook: UUID | None
    format: str


@dataclass(frozen=True, slots=True)
class Addressed:
    """A matter that one rule wants told."""

    said: Said
    rule: Rule


def active() -> tuple[Rule, ...]:
    """The rules of users who may sign in and of webhooks that are on. One query."""
    is_on = Q(user__is_active=True) | Q(webhook__is_active=True)
    columns = (
        "pk", "matter", "team__name", "by_mail", "after_event", "user_id", "user__username", "webhook_id",
        "webhook__format",
    )  # fmt: skip
    rows = NotificationRule.objects.filter(is_on).order_by("pk").values_list(*columns)
    return tuple(
        Rule(pk, matter, team or "", by_mail, after, user, name or "", webhook, format_ or "")
        for pk, matter, team, by_mail, after, user, name, webhook, format_ in rows
    )


def addressed(found: Iterable[Found], rules: Sequence[Rule]) -> tuple[Addressed, ...]:
    """Each event type with each rule that it meets; no user is told of a team not theirs, or of their own actions.

    A constant number of queries, and two for each user that a rule names.
    """
    own: dict[tuple[str, int], list[Rule]] = defaultdict(list)
    of_team: dict[tuple[str, str], list[Rule]] = defaultdict(list)
    for rule in rules:
        if rule.team:
            of_team[rule.matter, rule.team].append(rule)
        elif rule.user is not None:
            own[rule.matter, rule.user].append(rule)
    above = _paths()
    met = [
        (one, rule)
        for one in found
        for rule in [
            *(own.get((one.said.matter, one.by), ()) if one.by is not None else ()),
            *(rule for team in above.get(one.said.team, ()) for rule in of_team.get((one.said.matter, team), ())),
        ]
        if not (one.event and one.event <= rule.after_event)
    ]
    seen = seen_teams({rule.user for _, rule in met if rule.user is not None})
    wanted = [
        (one.said, rule)
        for one, rule in met
        if rule.user is None or (one.said.team in seen[rule.user] and one.actor != rule.username)
    ]
    return tuple(Addressed(said, rule) for said, rule in _as_read(wanted, above))


def _as_read(wanted: Sequence[tuple[Said, Rule]], above: Mapping[str, Sequence[str]]) -> list[tuple[Said, Rule]]:
    """What webhooks are sent with the names that members of their team may read; users' notices get names when read."""
    below: dict[str, set[str]] = defaultdict(set)
    for team, path in above.items():
        for one in path:
            below[one].add(team)
    nothing: naming.Seen = ()
    texts = naming.each([(said.message, nothing if rule.user else below[rule.team]) for said, rule in wanted])
    return [
        (said if rule.user is not None else replace(said, message=text), rule)
        for (said, rule), text in zip(wanted, texts, strict=True)
    ]


def _paths() -> dict[str, list[str]]:
    """Each team with all above it, itself first."""
    rows = {pk: (name, parent) for pk, name, parent in Team.objects.values_list("pk", "name", "parent_id")}
    found: dict[str, list[str]] = {}
    for name, parent in rows.values():
        path, seen = [name], parent
        while seen is not None and len(path) <= len(rows):
            path.append(rows[seen][0])
            seen = rows[seen][1]
        found[name] = path
    return found


def seen_teams(users: Iterable[int]) -> dict[int, frozenset[str]]:
    """The teams that each of these users may see now."""
    found = User.objects.in_bulk(list(users))
    return {pk: frozenset(access.roles(user)) for pk, user in found.items()}
