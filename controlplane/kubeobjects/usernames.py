"""Which of our names a Kubernetes user has, by the settings. Pure.

The API server says by which name it knows a person; people of an identity provider have its prefix before theirs
(`--oidc-username-prefix`). Without a setting no Kubernetes user is ours, as a name alone is no proof.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

NO_PREFIX = "-"  # as Kubernetes writes it: names are the same on both sides
RESERVED = "system:"  # Kubernetes' own users: never a person
SETTINGS = "WEFT_KUBERNETES_USER_PREFIX or WEFT_KUBERNETES_USERS"


@dataclass(frozen=True, slots=True)
class Ours:
    """A name of ours. is_named: the settings name this very Kubernetes user, so it may be a service account too."""

    name: str
    is_named: bool


def pairs(entries: Iterable[str]) -> dict[str, str]:
    """`kubernetes-user=our-name` entries, by Kubernetes user. Raises ValueError with a sentence."""
    found: dict[str, str] = {}
    for entry in entries:
        user, equals, name = entry.strip().rpartition("=")  # ours never hold `=`
        if not (user and equals and name):
            raise ValueError(
                f"WEFT_KUBERNETES_USERS has the entry {entry!r}. "
                "Write kubernetes-user=our-name, such as system:serviceaccount:argocd:deployer=nlp/deployer."
            )
        found[user] = name
    return found


def ours(username: str, *, prefix: str, named: Mapping[str, str]) -> Ours | None:
    """Our name of this Kubernetes user; None if the settings give it none."""
    if username in named:
        return Ours(named[username], is_named=True)
    if not prefix or username.startswith(RESERVED):
        return None
    start = "" if prefix == NO_PREFIX else prefix
    name = username.removeprefix(start)
    return Ours(name, is_named=False) if name and username.startswith(start) else None
