"""Workload and Team objects: who wrote the spec is noted, and who may not is refused with the fix."""

from controlplane.kubeobjects.names import GROUP, TEAM, WORKLOAD
from controlplane.kubeobjects.review import must_be_stamped, stamped
from controlplane.webhook.review import Asked, DeniedError, Json, Lookup


def is_ours(asked: Asked) -> bool:
    """Whether the request is about a custom resource of ours."""
    return asked.group == GROUP and asked.kind in (WORKLOAD, TEAM)


async def review(asked: Asked, lookup: Lookup) -> Json:
    """The object as it is let in. Raises DeniedError."""
    thing = asked.object or asked.old  # of one that is deleted there is only what was
    if refusal := await lookup.verdict(asked.operation, thing, asked.old or None, asked.username):
        raise DeniedError(refusal)
    is_written = must_be_stamped(asked.operation, thing, asked.old or None)
    return stamped(thing, asked.username) if is_written else asked.object
