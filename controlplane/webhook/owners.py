"""Review of objects that can be queued: Jobs, Deployments and the like in the namespace of a team."""

from typing import Any

from controlplane.adopted.jobfiles import UnfitError, job_file
from controlplane.adopted.kinds import DEPLOYMENT, QUEUE, USER, OwnerKind, at
from controlplane.adopted.port import Owner
from controlplane.jobspec.spec import SpecError, parse
from controlplane.webhook.review import STAMPED, Asked, DeniedError, Json, Lookup, Top, shown, texts

FREE = ("image",)  # of a job file: what may change while an object is queued, as its placement does not depend on it
FREE_OF_DEPLOYMENTS = (*FREE, "port", "replicas")


async def review(asked: Asked, kind: OwnerKind, lookup: Lookup) -> Json:
    """The object as it is to be stored. Raises DeniedError."""
    made: Json = {**asked.object, "metadata": dict(asked.object.get("metadata") or {})}
    _keep_stamps(made, texts(asked.old, "annotations"))
    queue, was = texts(made, "labels").get(QUEUE), texts(asked.old, "labels").get(QUEUE)
    if await _is_inside(asked, made, lookup):
        return made
    if queue is None:
        if was is not None and not made["metadata"].get("deletionTimestamp"):
            raise DeniedError(f"{asked.kind}: the label {QUEUE} cannot be taken off. Delete it and create it without.")
        return made  # its pods are refused, with what to do
    if was is None and not asked.is_new:
        raise DeniedError(
            f"{asked.kind}: the label {QUEUE} is given when it is created. Delete it and create it with the label."
        )
    team = lookup.team(asked.namespace)
    if queue != team:
        raise DeniedError(f"{asked.kind}: {QUEUE} is {shown(queue)}. In this namespace it is {shown(team)}.")
    if asked.is_new:
        return await _created(asked, made, kind, team, lookup)
    _changed(asked, made, kind)
    return made


async def _created(asked: Asked, made: Json, kind: OwnerKind, team: str, lookup: Lookup) -> Json:
    if refusal := await lookup.refusal(asked.username, team):
        raise DeniedError(refusal)
    _fits(made, kind, team)
    annotations = {**texts(made, "annotations"), USER: asked.username}
    made["metadata"]["annotations"] = annotations
    _suspend(made, kind, True)
    return made


def _changed(asked: Asked, made: Json, kind: OwnerKind) -> None:
    """Refuse what would change the size of what is placed, or let it go without a place."""
    if kind.suspend and bool(at(made, *kind.suspend)) != bool(at(asked.old, *kind.suspend)):
        where = ".".join(kind.suspend)
        raise DeniedError(
            f"{asked.kind}: {where} is Weft's, as it decides when it runs. To end it, delete it: `kubectl delete`."
        )
    team = texts(made, "labels")[QUEUE]
    now, old = _asks(made, kind, team), _asks(asked.old, kind, team)
    if now != old:
        changed = sorted(name for name in now.keys() | old.keys() if now.get(name) != old.get(name))
        raise DeniedError(
            f"{asked.kind}: {', '.join(changed)} cannot change while it is queued. Delete it and create it anew."
        )


def _asks(made: Json, kind: OwnerKind, team: str) -> Json:
    """What placing depends on, less what may change."""
    file = _fits(made, kind, team)
    free = FREE_OF_DEPLOYMENTS if kind is DEPLOYMENT else FREE
    return {name: value for name, value in file.items() if name not in free}


def _fits(made: Json, kind: OwnerKind, team: str) -> Json:
    """The job file that it becomes. Raises DeniedError with all that is wrong with it."""
    metadata = {"uid": "", "name": "", **made["metadata"]}
    if not metadata["name"] and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}x"
    try:
        file = job_file(Owner(kind, team, {**made, "metadata": metadata}))
        parse(file)
    except UnfitError as error:
        raise DeniedError(f"{kind.kind}: {error}") from error
    except SpecError as error:
        raise DeniedError(f"{kind.kind}: {error}") from error
    return file


def _suspend(made: Json, kind: OwnerKind, on: bool) -> None:
    thing = made
    for part in kind.suspend[:-1]:
        thing[part] = dict(thing.get(part) or {})
        thing = thing[part]
    if kind.suspend:
        thing[kind.suspend[-1]] = on


async def _is_inside(asked: Asked, made: Json, lookup: Lookup) -> bool:
    """Whether it belongs to another object, which is queued or not in its stead: a JobSet's Job."""
    references: list[Any] = made["metadata"].get("ownerReferences") or []
    if not any(one.get("controller") for one in references):
        return False
    top: Top | None = await lookup.top(asked.namespace, references)
    return top is not None and top.kind is not None


def _keep_stamps(made: Json, before: dict[str, str]) -> None:
    """What Weft has stamped stays, also in an object that is replaced as a whole; another value is refused."""
    after = texts(made, "annotations")
    for key, value in after.items():
        if key.startswith(STAMPED) and before.get(key) != value:
            raise DeniedError(f"metadata.annotations: {key} is Weft's. Leave it out.")
    missing = {key: value for key, value in before.items() if key.startswith(STAMPED) and key not in after}
    if missing:
        made["metadata"]["annotations"] = after | missing
