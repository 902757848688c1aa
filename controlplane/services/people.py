"""Accounts of people and of CI: made, changed and switched off by platform admins."""

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from controlplane.models import User
from controlplane.services import events
from controlplane.services.errors import Refused


@transaction.atomic
def create(*, username: str, password: str, email: str = "", is_platform_admin: bool = False, actor: str) -> User:
    """A new account; refused if the name is taken or the password too weak."""
    user = User(username=username, email=email, is_superuser=is_platform_admin, is_staff=is_platform_admin)
    _set_password(user, password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError as error:
        message = f"There is a user {username} already. Choose another name."
        raise Refused(409, "NameTaken", "username", message) from error
    events.record(kind="UserCreated", actor=actor, data={"user": username, "is_platform_admin": is_platform_admin})
    return user


@transaction.atomic
def change(*, user: User, email: str, is_active: bool, is_platform_admin: bool, password: str = "", actor: str) -> User:
    """Change an account; a new password only if one is given. The last platform admin stays one."""
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    if not (is_active and is_platform_admin) and user.is_superuser and not others.exists():
        message = f"{user.username} is the last platform admin. Make somebody else one first."
        raise Refused(409, "LastAdmin", "is_superuser", message)
    found = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if password:
        _set_password(found, password)
    found.email, found.is_active = email, is_active
    found.is_superuser = found.is_staff = is_platform_admin
    found.save()
    data = {"user": found.username, "is_active": is_active, "is_platform_admin": is_platform_admin}
    events.record(kind="UserChanged", actor=actor, data={**data, "new_password": bool(password)})
    return found


def add_first_admin(*, name: str, password: str) -> bool:
    """Give an installation without people its first platform admin; tell whether it had none."""
    if User.objects.exists():
        return False
    create(username=name, password=password, is_platform_admin=True, actor="system")
    return True


def _set_password(user: User, password: str) -> None:
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused(422, "WeakPassword", "password", " ".join(error.messages)) from error
    user.set_password(password)
