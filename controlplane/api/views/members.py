"""Who is in a team: members, service accounts with their tokens, and the groups that give roles."""

from datetime import timedelta
from typing import TYPE_CHECKING

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import PAGE, PERSON, PLATFORM_ADMIN, View, endpoint, no_body
from controlplane.api.serializers import accounts as answers
from controlplane.api.serializers import requests
from controlplane.api.views.accounts import new_token
from controlplane.queries.accounts import access
from controlplane.queries.accounts import accounts as queries
from controlplane.services.accounts import groups, members, service_accounts, tokens
from controlplane.services.errors import Refused

if TYPE_CHECKING:
    from controlplane.models import GroupMapping, User

TAG = "members"


class Members(View):
    """The members of a team."""

    @endpoint(answer=answers.MemberList, tag=TAG, operation="list_members", parameters=PAGE)
    def get(self, request: Request, team: str) -> Response:
        """List the members of a team itself; roles from teams above it come on top."""
        self.team(access.Verb.READ, team)
        return self.paged(queries.members(team), "username")


class Member(View):
    """One person in one team."""

    @endpoint(
        answer=answers.Member,
        body=requests.MemberRequest,
        least=PERSON,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="save_member",
    )
    def put(self, request: Request, team: str, username: str) -> Response:
        """Add a user to a team, or change what they may do there. For the team's admins."""
        into = self.team(access.Verb.MANAGE, team)
        given = requests.read_body(requests.MEMBER, request.data)
        user = _person(username)
        saved = members.save(team=into, user=user, role=access.Role(given["role"]), actor=self.actor)
        return Response(queries.member_row(saved))

    @endpoint(status=204, problems=(409,), tag=TAG, operation="delete_member")
    def delete(self, request: Request, team: str, username: str) -> Response:
        """Take somebody out of a team, from the next request on. The last admin stays."""
        no_body(request)
        out_of = self.team(access.Verb.MANAGE, team)
        user = queries.person_at(username)
        if user is None or not members.remove(team=out_of, user=user, actor=self.actor):
            raise Http404
        return Response(status=204)


class ServiceAccounts(View):
    """Service accounts of the teams that one manages."""

    @endpoint(answer=answers.ServiceAccountList, tag=TAG, operation="list_service_accounts", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List the service accounts of the teams that you are an admin of."""
        return self.listed(queries.service_accounts(self.caller), "id", queries.service_account_row)

    @endpoint(
        answer=answers.ServiceAccount,
        body=requests.ServiceAccountRequest,
        status=201,
        least=PERSON,
        problems=(409, 413, 415, 422),
        tag=TAG,
        operation="create_service_account",
    )
    def post(self, request: Request) -> Response:
        """Make a service account of a team. It has no password; make it a token."""
        given = requests.read_body(requests.SERVICE_ACCOUNT, request.data)
        team = self.team(access.Verb.MANAGE, given["team"])
        made = service_accounts.create(team=team, name=given["name"], role=access.Role(given["role"]), actor=self.actor)
        return Response(queries.service_account_row(made), status=201)


class OfAccount(View):
    """Something of one service account."""

    def account(self, pk: int) -> "User":
        """The service account, for an admin of its team; 404 to all other users."""
        found = queries.service_accounts(self.caller).filter(pk=pk).first()
        if found is None:
            raise Http404
        return found


class ServiceAccount(OfAccount):
    """One service account."""

    @endpoint(answer=answers.ServiceAccount, tag=TAG, operation="read_service_account")
    def get(self, request: Request, pk: int) -> Response:
        """Read a service account."""
        return Response(queries.service_account_row(self.account(pk)))

    @endpoint(
        answer=answers.ServiceAccount,
        body=requests.MemberRequest,
        least=PERSON,
        problems=(413, 415),
        tag=TAG,
        operation="update_service_account",
    )
    def patch(self, request: Request, pk: int) -> Response:
        """Change what a service account may do in its team."""
        account = self.account(pk)
        given = requests.read_body(requests.MEMBER, request.data)
        assert account.service_of is not None  # noqa: S101 - service_accounts() lists no others
        members.save(team=account.service_of, user=account, role=access.Role(given["role"]), actor=self.actor)
        return Response(queries.service_account_row(self.account(pk)))

    @endpoint(status=204, tag=TAG, operation="delete_service_account")
    def delete(self, request: Request, pk: int) -> Response:
        """End a service account: its tokens are of no use from the next request on, and what it submitted stays."""
        no_body(request)
        service_accounts.end(account=self.account(pk), actor=self.actor)
        return Response(status=204)


class ServiceAccountTokens(OfAccount):
    """The tokens of one service account."""

    @endpoint(answer=answers.TokenList, tag=TAG, operation="list_service_account_tokens", parameters=PAGE)
    def get(self, request: Request, pk: int) -> Response:
        """List a service account's tokens, newest first."""
        return self.listed(queries.tokens(self.account(pk)), "-id", queries.token_row)

    @endpoint(
        answer=answers.NewToken,
        body=requests.ServiceTokenRequest,
        status=201,
        least=PERSON,
        problems=(409, 413, 415),
        tag=TAG,
        operation="create_service_account_token",
    )
    def post(self, request: Request, pk: int) -> Response:
        """Create a token of a service account; its secret is shown this once."""
        account = self.account(pk)
        given = requests.read_body(requests.SERVICE_TOKEN, request.data)
        lifetime = timedelta(seconds=given["expires_in"]) if "expires_in" in request.data else None
        scope = access.Scope(given["scope"])
        issued = tokens.create(user=account, name=given["name"], lifetime=lifetime, scope=scope, issuer=self.caller)
        return new_token(issued)


class ServiceAccountToken(OfAccount):
    """One token of one service account."""

    @endpoint(status=204, tag=TAG, operation="delete_service_account_token")
    def delete(self, request: Request, pk: int, number: int) -> Response:
        """Revoke a service account's token; it is of no use from the next request on."""
        no_body(request)
        if not tokens.revoke(user=self.account(pk), pk=number, actor=self.actor):
            raise Http404
        return Response(status=204)


class GroupMappings(View):
    """Which groups of the identity provider have which roles."""

    @endpoint(
        answer=answers.GroupMappingList,
        least=PLATFORM_ADMIN,
        tag=TAG,
        operation="list_group_mappings",
        parameters=PAGE,
    )
    def get(self, request: Request) -> Response:
        """List the groups that give roles in teams."""
        return self.listed(queries.group_mappings(), "id", queries.group_mapping_row)

    @endpoint(
        answer=answers.GroupMapping,
        body=requests.GroupMappingRequest,
        status=201,
        least=PLATFORM_ADMIN,
        problems=(409, 413, 415),
        tag=TAG,
        operation="create_group_mapping",
    )
    def post(self, request: Request) -> Response:
        """Give a group a role in a team; its people have it from their next sign-in on."""
        given = requests.read_body(requests.GROUP_MAPPING, request.data)
        team = self.team(access.Verb.MANAGE, given["team"])
        made = groups.save(group=given["group"], team=team, role=access.Role(given["role"]), actor=self.actor)
        return Response(queries.group_mapping_row(made), status=201)


class GroupMappingOne(View):
    """One mapping."""

    @endpoint(
        answer=answers.GroupMapping,
        body=requests.MemberRequest,
        least=PLATFORM_ADMIN,
        problems=(413, 415),
        tag=TAG,
        operation="update_group_mapping",
    )
    def patch(self, request: Request, pk: int) -> Response:
        """Change the role that a group gives."""
        found = self._one(pk)
        given = requests.read_body(requests.MEMBER, request.data)
        role = access.Role(given["role"])
        saved = groups.save(group=found.group, team=found.team, role=role, actor=self.actor, mapping=found)
        return Response(queries.group_mapping_row(saved))

    @endpoint(status=204, least=PLATFORM_ADMIN, tag=TAG, operation="delete_group_mapping")
    def delete(self, request: Request, pk: int) -> Response:
        """Take the role from a group: a user with the role by this group only loses it at once."""
        no_body(request)
        groups.remove(mapping=self._one(pk), actor=self.actor)
        return Response(status=204)

    def _one(self, pk: int) -> "GroupMapping":
        found = queries.group_mappings().filter(pk=pk).first()
        if found is None:
            raise Http404
        return found


def _person(username: str) -> "User":
    user = queries.person_at(username)
    if user is None:
        message = f"There is no user {username}. A user exists from the first sign-in on."
        raise Refused(422, "NoSuchUser", "username", message)
    return user
