"""OpenID Connect's two addresses: to the provider, and back from it. The code flow with PKCE."""

from typing import Any

from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.internal import jwtkit
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST
from requests import RequestException


class Adapter(OpenIDConnectOAuth2Adapter):
    """allauth's, but it looks at the ID token's signature always, and takes no weak algorithm."""

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
        return claims


@require_POST
def login(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Send somebody to the provider. By POST, so that no other site can begin it."""
    provider = _adapter(request, provider_id).get_provider()
    wanted = request.POST.get("next", "")
    following = wanted if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure()) else None
    try:
        answer: HttpResponseBase = provider.redirect(request, process=AuthProcess.LOGIN, next_url=following)
    except (RequestException, ValueError, KeyError) as error:  # no answer, or none of OpenID Connect's
        answer = render_authentication_error(request, provider, exception=error)
    return answer


@require_GET
def callback(request: HttpRequest, provider_id: str) -> HttpResponseBase:
    """Take somebody back from the provider."""
    answer: HttpResponseBase = OAuth2CallbackView.adapter_view(_adapter(request, provider_id))(request)
    return answer


def _adapter(request: HttpRequest, provider_id: str) -> Adapter:
    adapter = Adapter(request, provider_id)
    try:
        get_adapter().get_app(request, provider_id)
    except SocialApp.DoesNotExist:
        raise Http404 from None
    return adapter
