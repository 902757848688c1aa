"""Which of our users a user of Kubernetes is (docs/kubernetes-objects.md#who-may)."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings

from controlplane.kubeobjects import usernames
from controlplane.kubeobjects.review import Author, review
from controlplane.models import User, Workload
from controlplane.queries.accounts import access
from controlplane.queries.accounts.access import Verb


def resolve(username: str) -> User | None:
    """Our user of this Kubernetes username; None if the settings give it no name, or there is no active user of it.

    By the prefix it is a person; a service account only where WEFT_KUBERNETES_USERS names it.
    """
    name = _name(username)
    if name is None:
        return None
    found = User.objects.filter(username=name.name, is_active=True)
    return (found if name.is_named else found.filter(service_of=None)).select_related("service_of").first()


def unknown(username: str) -> str:
    """Why `resolve` finds no user, and what to do; a sentence for the one who asked."""
    name = _name(username)
    if name is None:
        return (
            f"No user of Weft is the Kubernetes user {username}. "
            f"Ask a platform admin to set {usernames.SETTINGS} so that it is one."
        )
    return (
        f"The Kubernetes user {username} is {name.name} in Weft, and there is no such active user. "
        "Sign in to Weft once, or ask a platform admin for an account of that name."
    )


def _name(username: str) -> usernames.Ours | None:
    if not username.isprintable():  # NUL is no text to Postgres
        return None
    return usernames.ours(username, prefix=settings.KUBERNETES_USER_PREFIX, named=settings.KUBERNETES_USERS)


def author(username: str) -> Author:
    """Who sent a request to Kubernetes, with what they may do here."""
    user = resolve(username)
    if user is None:
        return Author(username, unknown=unknown(username))
    roles = access.roles(user)

    def where(verb: Verb) -> frozenset[str]:
        return frozenset(team for team, role in roles.items() if access.allows(role, verb))

    is_admin = access.is_platform_admin(user)
    return Author(
        username, user.username, "", is_admin, where(Verb.READ), where(Verb.SUBMIT), where(Verb.ACT), where(Verb.CHANGE)
    )  # fmt: skip


def decide(operation: str, thing: Mapping[str, Any], old: Mapping[str, Any] | None, username: str) -> str:
    """Why the admission webhook refuses this request about a Workload or Team object; empty if it does not.

    operation: CREATE, UPDATE or DELETE; thing: the object as it would be (DELETE: as it is); old: as it is, for UPDATE.
    """
    submitter = submitter_of((old or thing)["metadata"].get("uid", ""))
    prefix = settings.NAMESPACE_PREFIX
    return review(operation, thing, old, author(username), prefix=prefix, submitter=submitter)


def submitter_of(uid: str) -> str:
    """Our name of who submitted the workload of an object; empty if none was."""
    try:
        key = UUID(uid)
    except ValueError:
        return ""
    name = Workload.objects.filter(pk=key).values_list("created_by__username", flat=True).first()
    return name or ""
