"""Review of Weft's own custom resources: the rules are kubeobjects.review's; here their author is stamped."""

from controlplane.kubeobjects import review as rules
from controlplane.kubeobjects.names import AUTHOR
from controlplane.webhook.review import Asked, DeniedError, Json, Lookup, texts


async def review(asked: Asked, lookup: Lookup) -> Json:
    """The object as it is to be stored. Raises DeniedError."""
    old = asked.old if asked.operation == rules.UPDATE else None
    if objection := await lookup.objection(asked.operation, asked.object, old, asked.username):
        raise DeniedError(objection)
    if asked.operation == rules.DELETE:
        return asked.object
    if rules.must_be_stamped(asked.operation, asked.object, old):
        return rules.stamped(asked.object, asked.username)
    before, after = texts(asked.old, "annotations"), texts(asked.object, "annotations")
    if AUTHOR in before and AUTHOR not in after:  # replaced as a whole, with the same spec
        return rules.stamped(asked.object, before[AUTHOR])
    return asked.object
