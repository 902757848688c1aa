"""Saved views: one user's names for lists of workloads."""

from collections.abc import Mapping
from urllib.parse import urlencode

from django.db import transaction

from controlplane.jobspec.shapes import Faults, Text
from controlplane.models import SavedView, User
from controlplane.services.errors import Refused

MAX = 50  # of one user
# What an address of the list may say (queries.worklist reads it). A page's place in the list is not part of a view.
PARAMETERS = ("q", "team", "type", "phase", "reason", "by", "priority", "sort")
LONGEST = 500  # characters of an address
NAME = Text(40)


@transaction.atomic
def save(*, user: User, name: str, given: Mapping[str, str]) -> SavedView:
    """Keep a list under a name; one of the same name is replaced. Refused 422 for what is no list of ours."""
    name = name.strip()
    faults = Faults()
    NAME.read(name, "name", faults)
    if faults.errors:
        raise Refused(422, "BadName", "name", faults.errors[0].message)
    unknown = sorted(given.keys() - set(PARAMETERS))
    if unknown:
        message = f"{unknown[0][:40]} is not a filter of workloads. Use {', '.join(PARAMETERS)}."
        raise Refused(422, "BadQuery", "query", message)
    query = urlencode([(one, given[one]) for one in PARAMETERS if given.get(one)])
    if len(query) > LONGEST:
        message = f"The filters have {len(query)} characters. Shorten them to at most {LONGEST}."
        raise Refused(422, "BadQuery", "query", message)
    mine = SavedView.objects.filter(user=user)
    if not mine.filter(name=name).exists() and mine.count() >= MAX:
        raise Refused(409, "TooMany", "", f"You have {MAX} saved views. Delete one first.")
    made, _ = SavedView.objects.update_or_create(user=user, name=name, defaults={"query": query})
    return made


def remove(*, user: User, number: int) -> bool:
    """Forget one of the user's views; whether there was one."""
    return bool(SavedView.objects.filter(user=user, pk=number).delete()[0])
