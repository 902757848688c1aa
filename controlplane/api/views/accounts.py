"""Signing in, who one is, and one's own tokens."""

from datetime import timedelta
from typing import Any

from django.http import Http404
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.endpoint import ANYONE, PAGE, View, endpoint, no_body
from controlplane.api.pagination import page
from controlplane.api.serializers import platform as answers
from controlplane.api.serializers import requests
from controlplane.queries import platform as queries
from controlplane.services import logins, tokens

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
        problems=(401, 409, 413, 415),
        tag=TAG,
        operation="login",
    )
    def post(self, request: Request) -> Response:
        """Exchange a user name and a password for a token."""
        given = requests.read(requests.LOGIN, request.data)
        address = request.META.get("REMOTE_ADDR", "")
        user = logins.check(username=given["username"], password=given["password"], address=address)
        return _new(tokens.create(user=user, name=given["name"]))


class Me(View):
    """Who asks."""

    @endpoint(answer=answers.Me, tag=TAG, operation="whoami")
    def get(self, request: Request) -> Response:
        """Tell who you are, and your role in each team."""
        return Response(queries.me(self.caller, request.auth))


class Tokens(View):
    """The user's own tokens."""

    @endpoint(answer=answers.TokenList, tag=TAG, operation="list_tokens", parameters=PAGE)
    def get(self, request: Request) -> Response:
        """List your tokens, newest first."""

        def show(rows: list[Any]) -> list[dict[str, Any]]:
            return [queries.token_row(row) for row in rows]

        found = queries.tokens(request.user)
        return Response(page(request, found, order="-id", show=show, size=self.given["page_size"]))

    @endpoint(
        answer=answers.NewToken,
        body=requests.TokenRequest,
        status=201,
        problems=(409, 413, 415),
        tag=TAG,
        operation="create_token",
    )
    def post(self, request: Request) -> Response:
        """Make a token; its secret is shown this once."""
        given = requests.read(requests.TOKEN, request.data)
        lifetime = timedelta(seconds=given["expires_in"])
        return _new(tokens.create(user=self.caller, name=given["name"], lifetime=lifetime))


class Token(View):
    """One of the user's own tokens."""

    @endpoint(status=204, tag=TAG, operation="delete_token")
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke a token; it is of no use from the next request on."""
        no_body(request)
        if not tokens.revoke(user=self.caller, pk=pk):
            raise Http404
        return Response(status=204)


def _new(issued: tokens.Issued) -> Response:
    return Response({**queries.token_row(issued.token), "token": issued.secret}, status=201)
