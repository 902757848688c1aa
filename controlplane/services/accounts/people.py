"""Accounts of people and of CI: made, changed and switched off by platform admins."""

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from controlplane.jobspec.names import username_fault
from controlplane.models import Session, User
from controlplane.services.accounts import endings, tokens
from controlplane.services.audit import events
from controlplane.services.errors import Refused


@transaction.atomic
def create(*, username: str, password: str, email: str = "", is_platform_admin: bool = False, actor: str) -> User:
    """A new account; refused if the name is none or taken, or the password too weak."""
    if fault := username_fault(username):
        raise Refused(422, "BadName", "username", fault)
    if User.objects.filter(username__iexact=username).exists():
        raise _taken(username)
    user = User(username=username, email=email, is_superuser=is_platform_admin, is_staff=is_platform_admin)
    _set_password(user, password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        raise _taken(username) from error
    events.record(kind="UserCreated", actor=actor, data={"user": username, "is_platform_admin": is_platform_admin})
    return user


def came(*, user: User) -> None:
    """Note somebody's first sign-in by the identity provider: they have no password here."""
    user.set_unusable_password()
    user.save(update_fields=["password"])
    events.record(kind="UserCreated", actor=user.username, data={"user": user.username, "source": "sso"})


@transaction.atomic
def set_platform_admin(*, user: User, is_platform_admin: bool) -> None:
    """Follow the identity provider's group of platform admins; what changes is told."""
    if user.is_superuser == is_platform_admin:
        return
    user.is_superuser = user.is_staff = is_platform_admin
    user.save(update_fields=["is_superuser", "is_staff"])
    data = {"user": user.username, "is_active": True, "is_platform_admin": is_platform_admin, "source": "sso"}
    events.record(kind="UserChanged", actor=user.username, data=data)
    if not is_platform_admin:
        endings.of_role(user=user, why="no platform admin any more", actor=user.username)


@transaction.atomic
def change(*, user: User, email: str, is_active: bool, is_platform_admin: bool, password: str = "", actor: str) -> User:
    """Change an account; a new password only if one is given. The last platform admin stays one."""
    if user.service_of_id is not None and (is_platform_admin or password):
        message = f"{user.username} is a service account: it has no password and is no platform admin."
        raise Refused(422, "NotAPerson", "password" if password else "is_superuser", message)
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    if not (is_active and is_platform_admin) and user.is_superuser and not others.exists():
        message = f"{user.username} is the last platform admin. Make another user one first."
        raise Refused(409, "LastAdmin", "is_superuser", message)
    found = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    was_admin, was_active = found.is_superuser, found.is_active
    if password:
        _set_password(found, password)
    found.email, found.is_active = email, is_active
    found.is_superuser = found.is_staff = is_platform_admin
    found.save()
    if password:
        endings.of_person(user=found, why="another password", actor=actor)
    if was_admin and not is_platform_admin:
        endings.of_role(user=found, why="no platform admin any more", actor=actor)
    if was_active and not is_active:
        _switch_off(found, actor)
    data = {"user": found.username, "is_active": is_active, "is_platform_admin": is_platform_admin}
    events.record(kind="UserChanged", actor=actor, data={**data, "new_password": bool(password)})
    return found


@transaction.atomic
def change_own_password(*, user: User, password: str, session: str) -> User:
    """Another password, by the person, who gave the present one just now; every other session ends, and every token.

    Raises Refused for a weak password, and for accounts without one.
    """
    found = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if not found.has_usable_password():
        message = f"{found.username} has no password here: the identity provider signs them in."
        raise Refused(409, "NoPassword", "password", message)
    if found.check_password(password):
        raise Refused(422, "SamePassword", "password", "That is the present password. Choose another one.")
    _set_password(found, password)
    found.save(update_fields=["password"])
    events.record(kind="PasswordChanged", actor=found.username, data={"user": found.username})
    endings.of_person(user=found, why="another password", actor=found.username, but=session)
    return found


@transaction.atomic
def end_sessions(*, user: User, but: str = "", actor: str) -> int:
    """Sign the user out everywhere, but for one session; how many were ended. Tokens stay."""
    ended, _ = Session.objects.filter(user=user).exclude(pk=but).delete()
    if ended:
        events.record(kind="SessionsEnded", actor=actor, data={"user": user.username, "sessions": ended})
    return ended


def add_first_admin(*, name: str, password: str) -> bool:
    """Give an installation without people its first platform admin; tell whether it had none."""
    if User.objects.exists():
        return False
    create(username=name, password=password, is_platform_admin=True, actor="system")
    return True


def _switch_off(user: User, actor: str) -> None:
    """End all that signs this account in: of a person, and of a service account, which nobody else's role keeps."""
    endings.of_role(user=user, why="switched off", actor=actor)
    if user.service_of_id is not None:
        tokens.revoke_all(user=user, actor=actor)


def _taken(username: str) -> Refused:
    message = f"There is a user {username} already, or one whose name differs in capitals only. Choose another name."
    return Refused(409, "NameTaken", "username", message)


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused(422, "WeakPassword", "password", " ".join(error.messages)) from error
    user.set_password(password)
