"""Which of our users a user of Kubernetes is (docs/kubernetes-objects.md#who-may)."""

from django.conf import settings

from controlplane.kubeobjects import usernames
from controlplane.models import User


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
