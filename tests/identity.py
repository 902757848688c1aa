"""The identity provider of the tests (tests/oidc_provider.py), started and told what to say."""

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from controlplane.signin import configuration
from tests.oidc_provider import CLIENT, SECRET
from tests.servers import ROOT, answers, environment, free_port, running, wait_until


@cache
def http() -> httpx.Client:
    """One client for all tests: each reads all certificates of the machine when it is made."""
    return httpx.Client()


@dataclass
class IdentityProvider:
    """A running provider."""

    issuer: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment of a Weft that uses it."""
        return {
            "WEFT_OIDC_ISSUER": self.issuer,
            "WEFT_OIDC_NAME": "Example",
            "WEFT_OIDC_CLIENT_ID": CLIENT,
            "WEFT_OIDC_CLIENT_SECRET": SECRET,
        }

    def configure(self, settings: Any) -> None:
        """Have the settings of a test name this provider."""
        import environ

        env = environ.Env()
        env.ENVIRON = {**self.variables}
        settings.OIDC_ISSUER, settings.OIDC_NAME = self.issuer, "Example"
        settings.SOCIALACCOUNT_PROVIDERS = configuration.providers(env, self.issuer, "Example")

    def person(self, name: str = "", *groups: str, **claims: Any) -> None:
        """Who signs in next; "" is somebody who refuses."""
        known = {"sub": f"id-of-{name}", "preferred_username": name, "email": f"{name}@example.com", "groups": groups}
        http().post(f"{self.issuer}/test/person", json={**known, **claims} if name else {}).raise_for_status()

    def forget(self) -> None:
        """Forget all that was said and asked."""
        http().post(f"{self.issuer}/test/forget").raise_for_status()

    def drop(self, *names: str) -> None:
        """Have these people, and no others, have no account any more."""
        http().post(f"{self.issuer}/test/drop", json=[f"id-of-{name}" for name in names]).raise_for_status()

    def fault(self, name: str) -> None:
        """Make ID tokens wrong in this way from now on."""
        http().post(f"{self.issuer}/test/fault", json=name).raise_for_status()

    def asked(self) -> list[dict[str, str]]:
        """What authorize was asked so far."""
        found: list[dict[str, str]] = http().get(f"{self.issuer}/test/asked").json()
        return found


@contextlib.contextmanager
def identity_provider(folder: Path) -> Iterator[IdentityProvider]:
    """Run one on a loopback port until it answers, and end it afterwards."""
    port, log = free_port(), folder / "identity.log"
    command = [sys.executable, "-m", "tests.oidc_provider", str(port)]
    issuer = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        return answers(f"{issuer}/keys")

    with running(command, log=log, env={**environment(folder), "PYTHONPATH": str(ROOT)}) as process:
        wait_until(is_ready, issuer, 30)
        yield IdentityProvider(issuer)
