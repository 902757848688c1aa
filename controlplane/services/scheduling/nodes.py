"""What people do with machines."""

from django.db import transaction

from controlplane.models import Action, Node
from controlplane.runtime.wake import wake
from controlplane.services.audit import events
from controlplane.services.errors import Refused
from controlplane.services.scheduling import changes, clock


@transaction.atomic
def cordon(*, name: str, on: bool, actor: str) -> None:
    """Take a node out of use for new work, or back into use; what runs there goes on. Doing it twice does it once.

    The database knows at once, so that no round places anything there; the cluster is told by the actuate loop.
    Raises Refused 404.
    """
    node = Node.objects.select_for_update().filter(name=name).first()
    if node is None:
        raise Refused(404, "NotFound", "", f"There is no node {name}.")
    if node.schedulable != on:  # schedulable means not cordoned
        return
    at = clock.now()
    Node.objects.filter(pk=node.pk).update(schedulable=not on)
    Action.objects.create(verb="cordon", payload={"node": name, "on": on}, created_at=at)
    events.record(kind="Cordoned" if on else "Uncordoned", actor=actor, at=at, name=name[:63], data={"node": name})
    changes.touch()
    wake("schedule")
    wake("actuate")
