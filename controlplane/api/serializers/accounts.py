"""Answers about people, members, service accounts and tokens; queries.accounts builds them."""

from rest_framework import serializers as s

from controlplane.api.serializers.workloads import Answer, Page
from controlplane.queries.accounts import access, accounts

ROLES, SCOPES, SOURCES = ([str(value) for value in one.values] for one in (access.Role, access.Scope, accounts.Source))


class Token(Answer):
    """A token, without its secret."""

    id = s.IntegerField()
    name = s.CharField()
    prefix = s.CharField(help_text="Its first characters, to recognise it.")
    scope = s.ChoiceField(SCOPES, help_text="read: look; submit: and work with workloads; admin: all its user may do.")
    team = s.CharField(allow_null=True, help_text="Only there and in the teams below it; null = everywhere.")
    created_at = s.DateTimeField()
    expires_at = s.DateTimeField()
    last_used_at = s.DateTimeField(allow_null=True)


class TokenList(Page):
    """Tokens."""

    results = Token(many=True)


class NewToken(Token):
    """A new token with its secret, which is shown this once."""

    token = s.CharField()


class Ended(Answer):
    """How many were ended."""

    ended = s.IntegerField()


class TeamRole(Answer):
    """A role in a team."""

    team = s.CharField()
    role = s.ChoiceField(ROLES)


class Me(Answer):
    """The user of the request."""

    username = s.CharField()
    name = s.CharField(allow_blank=True)
    email = s.CharField(allow_blank=True)
    is_platform_admin = s.BooleanField()
    service_account_of = s.CharField(allow_null=True, help_text="The team that owns it; null for a person.")
    teams = TeamRole(many=True)
    token = Token(allow_null=True)


class Member(Answer):
    """A member of a team."""

    username = s.CharField()
    role = s.ChoiceField(ROLES)
    source = s.ChoiceField(SOURCES, help_text="groups: it ends when the group does.")  # type: ignore[assignment]
    is_service_account = s.BooleanField()
    is_active = s.BooleanField(help_text="Whether the account may sign in.")


class MemberList(Page):
    """The members of a team itself, not of those above it."""

    results = Member(many=True)


class ServiceAccount(Answer):
    """A team's account for CI."""

    id = s.IntegerField()
    username = s.CharField(help_text="TEAM/NAME: its name in events.")
    name = s.CharField()
    team = s.CharField()
    role = s.ChoiceField(ROLES, allow_null=True)


class ServiceAccountList(Page):
    """Service accounts of the teams that the asker manages."""

    results = ServiceAccount(many=True)


class GroupMapping(Answer):
    """A user in the group has the role in the team, from the next sign-in on."""

    id = s.IntegerField()
    group = s.CharField()
    team = s.CharField()
    role = s.ChoiceField(ROLES)


class GroupMappingList(Page):
    """Mappings of groups."""

    results = GroupMapping(many=True)
