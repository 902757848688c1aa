"""A small OpenID Connect provider as a process of its own: discovery, authorize, token, userinfo, keys; RS256 and PKCE.

`python -m tests.oidc_provider PORT` serves on loopback. Who signs in is what `POST /test/person` last said; with no
person the authorize page refuses. `POST /test/fault` makes the next token wrong in one way. It keeps all in memory.
"""

import base64
import hashlib
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "weft", "a secret of the client"


class Provider(ThreadingHTTPServer):
    """The server with its keys, its person and the codes it gave out."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Answers)
        self.issuer = f"http://127.0.0.1:{self.server_address[1]}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.forget()

    def forget(self) -> None:
        """Know nobody, as at the start; the keys stay."""
        self.person: dict[str, Any] = {}
        self.fault = ""
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[dict[str, str]] = []  # what authorize was asked
        self.access: dict[str, dict[str, Any]] = {}
        self.refresh: dict[str, dict[str, Any]] = {}  # refresh tokens, each good once
        self.dropped: list[str] = []  # subjects

    def id_token(self, nonce: str | None) -> str:
        """An ID token for the person, wrong in the way that was asked for."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        wrong = {"issuer": {"iss": "https://evil.example"}, "audience": {"aud": "other"}, "expired": {"exp": now - 60}}
        wrong |= {"nonce": {"nonce": "another"}, "no nonce": {"nonce": None}}
        claims |= wrong.get(self.fault, {})
        headers = {"kid": "unknown" if self.fault == "kid" else "one"}
        if self.fault == "none":
            return jwt.encode(claims, None, algorithm="none", headers=headers)  # type: ignore[arg-type]
        if self.fault == "hmac":  # signed with the public key as a secret: an old trick
            return jwt.encode(claims, "x" * 32, algorithm="HS256", headers=headers)
        return jwt.encode(claims, self.stranger if self.fault == "signature" else self.key, "RS256", headers=headers)


class Answers(BaseHTTPRequestHandler):
    """The addresses."""

    server: Provider

    def do_GET(self) -> None:  # noqa: N802 - the base class calls it so
        """Discovery, keys, authorize, userinfo."""
        provider, split = self.server, urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(split.query).items()}
        match split.path:
            case "/.well-known/openid-configuration":
                self.say(
                    {
                        "issuer": provider.issuer,
                        "authorization_endpoint": f"{provider.issuer}/authorize",
                        "token_endpoint": f"{provider.issuer}/token",
                        "userinfo_endpoint": f"{provider.issuer}/userinfo",
                        "jwks_uri": f"{provider.issuer}/keys",
                        "token_endpoint_auth_methods_supported": ["client_secret_post"],
                        "scopes_supported": ["openid", "profile", "email", "groups", "offline_access"],
                    }
                )
            case "/keys":
                jwk = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(provider.key.public_key()))
                self.say({"keys": [{**jwk, "kid": "one", "alg": "RS256", "use": "sig"}]})
            case "/authorize":
                self.authorize(asked)
            case "/userinfo":
                person = provider.access.get(self.headers.get("Authorization", "").removeprefix("Bearer "))
                self.say(person or {"error": "invalid_token"}, 200 if person else 401)
            case "/test/asked":
                self.say(provider.asked)
            case _:
                self.say({"error": "not found"}, 404)

    def do_POST(self) -> None:  # noqa: N802
        """Token; and what the test tells."""
        raw = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        match self.path:
            case "/token":
                self.token({name: values[0] for name, values in parse_qs(raw).items()})
            case "/test/person":
                self.server.person = json.loads(raw)
                self.say({})
            case "/test/drop":
                self.server.dropped = json.loads(raw)
                self.say({})
            case "/test/forget":
                self.server.forget()
                self.say({})
            case "/test/fault":
                self.server.fault = json.loads(raw)
                self.say({})
            case _:
                self.say({"error": "not found"}, 404)

    def authorize(self, asked: dict[str, str]) -> None:
        """Send the browser back with a code, or with a refusal if nobody is there."""
        provider = self.server
        provider.asked.append(asked)
        given = {"state": asked.get("state", "")}
        if asked.get("client_id") != CLIENT or asked.get("code_challenge_method") != "S256":
            self.say({"error": "invalid_request"}, 400)
            return
        if provider.person:
            given["code"] = secrets.token_urlsafe(16)
            provider.codes[given["code"]] = asked
        else:
            given["error"] = "access_denied"
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode(given)}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def token(self, given: dict[str, str]) -> None:
        """Exchange a code, once, for whoever knows the verifier and the client's secret."""
        provider = self.server
        if given.get("grant_type") == "refresh_token":
            self.renew(given)
            return
        asked = provider.codes.pop(given.get("code", ""), None)
        if asked is None:
            self.say({"error": "invalid_grant"}, 400)
            return
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        is_right = (
            asked["code_challenge"] == challenge
            and asked["redirect_uri"] == given.get("redirect_uri")
            and (given.get("client_id"), given.get("client_secret")) == (CLIENT, SECRET)
        )
        if not is_right:
            self.say({"error": "invalid_grant"}, 400)
            return
        access = secrets.token_urlsafe(16)
        provider.access[access] = dict(provider.person)
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": 300}
        if "offline_access" in asked.get("scope", "").split():
            answer["refresh_token"] = self.refreshing(provider.person)
        if provider.fault != "absent":
            answer["id_token"] = provider.id_token(asked.get("nonce"))
        self.say(answer)

    def refreshing(self, person: dict[str, Any]) -> str:
        """A new refresh token for somebody."""
        token = secrets.token_urlsafe(16)
        self.server.refresh[token] = dict(person)
        return token

    def renew(self, given: dict[str, str]) -> None:
        """Exchange a refresh token, once, for another one, as long as its person has an account."""
        provider = self.server
        person = provider.refresh.pop(given.get("refresh_token", ""), None)
        if provider.fault == "down":
            self.say({"error": "temporarily_unavailable"}, 503)
        elif (given.get("client_id"), given.get("client_secret")) != (CLIENT, SECRET):
            self.say({"error": "invalid_client"}, 401)
        elif person is None or person["sub"] in provider.dropped:
            self.say({"error": "invalid_grant"}, 400)
        else:
            self.say({"access_token": "a", "token_type": "Bearer", "refresh_token": self.refreshing(person)})

    def say(self, body: Any, status: int = 200) -> None:
        """Answer with JSON."""
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


if __name__ == "__main__":
    Provider(int(sys.argv[1])).serve_forever()
