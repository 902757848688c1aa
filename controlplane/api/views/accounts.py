"""Signing in, who one is, and one's own tokens."""

from datetime import timedelta

from django.core.exceptions import PermissionDenied
from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import ANYONE, PAGE, PERSON, PLATFORM_ADMIN, View, endpoint, no_body, refuse
from controlplane.api.serializers import accounts as answers
from controlplane.api.serializers import requests
from controlplane.queries.accounts import access
from controlplane.queries.accounts import accounts as queries
from controlplane.services.accounts import logins, tokens

TAG = "accounts"


class Login(View):
    """A password for a token."""

    # A token that has expired must not be in the way of getting a new one, and no session is used.
    authentication_classes = []

    @endpoint(
        answer=answers.NewToken,
        body=requests.Login,
        status=201,
        least=ANYONE,
        problems=(401, 403, 409, 413, 415),
        tag=TAG,
        operation="login",
    )
    def post(self, request: Request) -> Response:
        """Exchange a user name and a password for a token."""
        given = requests.read_body(requests.LOGIN, request.data)
        address = request.META.get("REMOTE_ADDR", "")
        code = given["code"] or ""
        user = logins.check_both(username=given["username"], password=given["password"], code=code, address=address)
        return new_token(tokens.create(user=user, name=given["name"]))


class Me(View):
    """The user of the request."""

    @endpoint(answer=answers.Me, tag=TAG, operation="whoami")
    def get(self, request: Request) -> Response:
        """Tell who you are, and your role in each team."""
        return Response(queries.me(self.caller, request.auth))


class Tokens(View):
    """The user's own tokens."""

    @endpoint(answer=answers.TokenList, tag=TAG, operation="list_tokens", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List your tokens, newest first."""
        return self.listed(queries.tokens(request.user), "-id", queries.token_row)

    @endpoint(
        answer=answers.NewToken,
        body=requests.TokenRequest,
        status=201,
        least=PERSON,
        problems=(409, 413, 415),
        tag=TAG,
        operation="create_token",
    )
    def post(self, request: Request) -> Response:
        """Create a token; its secret is shown this once."""
        given = requests.read_body(requests.TOKEN, request.data)
        team = access.team_at(given["team"]) if given["team"] else None
        if given["team"] and (team is None or not access.can(self.caller, access.Verb.READ, team)):
            refuse("team", f"You are in no team {given['team']}. Name one of yours, or leave it out.")
        return new_token(
            tokens.create(
                user=self.caller,
                name=given["name"],
                lifetime=timedelta(seconds=given["expires_in"]) if "expires_in" in request.data else None,
                scope=access.Scope(given["scope"]),
                team=team,
            )
        )


class Token(View):
    """One of the user's own tokens."""

    @endpoint(status=204, tag=TAG, operation="delete_token")
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke a token; it is of no use from the next request on. A limited token may end only itself."""
        no_body(request)
        own = access.token_of(self.caller)
        if not access.is_whole(self.caller) and not (own and own.pk == pk):
            raise PermissionDenied("This token is limited: it may end only itself.")
        if not tokens.revoke(user=self.caller, pk=pk):
            raise Http404
        return Response(status=204)


class UserTokens(View):
    """The tokens of one person."""

    @endpoint(answer=answers.Ended, least=PLATFORM_ADMIN, tag=TAG, operation="end_tokens_of_user")
    def delete(self, request: Request, username: str) -> Response:
        """Revoke all tokens of a person; they are of no use from the next request on. For platform admins."""
        no_body(request)
        user = queries.person_at(username)
        if user is None:
            raise Http404
        return Response({"ended": tokens.revoke_all(user=user, actor=self.actor)})


def new_token(issued: tokens.Issued) -> Response:
    """Answer with a new token: the only time that its secret is shown."""
    return Response({**queries.token_row(issued.token), "token": issued.secret}, status=201)
