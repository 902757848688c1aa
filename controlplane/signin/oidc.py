"""OpenID Connect's two addresses: to the provider, and back from it. The code flow with PKCE, state and nonce."""

import secrets
from typing import Any

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.base import AuthProcess, Provider
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException


class Adapter(OpenIDConnectOAuth2Adapter):
    """allauth's, but the ID token must be there, be signed by no weak algorithm, and carry this sign-in's nonce."""

    nonce = ""

    def complete_login(self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any) -> SocialLogin:
        """Whoever the ID token names. Raises OAuth2Error if there is none: the user info alone has no nonce."""
        if not kwargs["response"].get("id_token"):
            raise OAuth2Error("The provider sent no ID token")
        return super().complete_login(request, app, token, **kwargs)

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        """The claims. Raises OAuth2Error unless a key of the provider signed them for us, and lately."""
        header = jwtkit.jwt.get_unverified_header(id_token)
        if header.get("alg") not in settings.OIDC_ALGORITHMS:
            raise OAuth2Error(f"The ID token is signed by {header.get('alg')}")
        claims: dict[str, Any] = jwtkit.verify_and_decode(
            credential=id_token,
            keys_url=self.openid_config["jwks_uri"],
            issuer=self.openid_config["issuer"],
            audience=app.client_id,
            lookup_kid=jwtkit.lookup_kid_jwk,
        )
        if not self.nonce or not constant_time_compare(str(claims.get("nonce", "")), self.nonce):
            raise OAuth2Error("The ID token was made for another sign-in")
        return claims


class Callback(OAuth2CallbackView):
    """allauth's, but it tells the adapter the nonce that was kept with the state."""

    adapter: Adapter

    def _get_state(self, request: HttpRequest, provider: Provider) -> tuple[dict[str, Any], HttpResponseBase | None]:
        state, answer = super()._get_state(request, provider)
        self.adapter.nonce = (state or {}).get("nonce", "")
        return state, answer


@require_POST
def login(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Send somebody to the provider. By POST, so that no other site can begin it."""
    adapter = _adapter(request, provider_id)
    provider = adapter.get_provider()
    wanted = request.POST.get("next", "")
    following = wanted if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()) else None
    nonce = secrets.token_urlsafe(24)
    asked = {**provider.get_auth_params(), "nonce": nonce}
    try:
        answer: HttpResponseBase = provider.redirect(
            request,
            process=AuthProcess.LOGIN,
            next_url=following,
            auth_params=asked,
            nonce=nonce,
            scope=_scope(provider.get_scope(), adapter.openid_config),
        )
    except (RequestException, ValueError, KeyError) as error:  # no answer, or none of OpenID Connect's
        answer = render_authentication_error(request, provider, exception=error)
    return answer


def _scope(configured: list[str], known: dict[str, Any]) -> list[str]:
    """What is asked for: a refresh token as well, where the provider offers one, to ask it daily about the account."""
    offers = "offline_access" in known.get("scopes_supported", ()) and "offline_access" not in configured
    return [*configured, "offline_access"] if offers else configured


@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Take somebody back from the provider."""
    answer: HttpResponseBase = Callback.adapter_view(_adapter(request, provider_id))(request)
    return answer


def _adapter(request: HttpRequest, provider_id: str) -> Adapter:
    adapter = Adapter(request, provider_id)
    try:
        get_adapter().get_app(request, provider_id)
    except SocialApp.DoesNotExist:
        raise Http404 from None
    return adapter
