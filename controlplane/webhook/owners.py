"""Review of objects that can be queued: Jobs, Deployments and the like in the namespace of a team."""

from typing import Any

from controlplane.adopted.jobfiles import UnfitError, job_file
from controlplane.adopted.kinds import CRON_JOB, DEPLOYMENT, MADE_FOR, QUEUE, USER, OwnerKind, at
from controlplane.adopted.port import Owner
from controlplane.jobspec.spec import SpecError, parse
from controlplane.webhook.review import STAMPED, Asked, DeniedError, Json, Lookup, Top, shown, texts

FREE = ("image",)  # of a job file: what may change while an object is queued, as its placement does not depend on it
FREE_OF_DEPLOYMENTS = (*FREE, "port", "replicas")


async def review(asked: Asked, kind: OwnerKind, lookup: Lookup) -> Json:
    """The object as it is to be stored. Raises DeniedError."""
    made: Json = {**asked.object, "metadata": dict(asked.object.get("metadata") or {})}
    keep_stamps(made, texts(asked.old, "annotations"))
    queue, was = texts(made, "labels").get(QUEUE), texts(asked.old, "labels").get(QUEUE)
    if await _is_inside(asked, made, lookup):
        return made
    if queue is None:
        if was is not None and not made["metadata"].get("deletionTimestamp"):
            raise DeniedError(f"{asked.kind}: the label {QUEUE} cannot be taken off. Delete it and create it without.")
        if asked.is_new and (maker := _cron_job(made)) is not None:
            raise DeniedError(
                f"CronJob/{maker['name']}: its Jobs are not queued. Write {QUEUE}: {lookup.team(asked.namespace)} into "
                "spec.jobTemplate.metadata.labels."
            )
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
    author = asked.username
    maker = _cron_job(made) if lookup.is_controller(author) else None
    if maker is not None:  # it makes its Jobs for the user that wrote it
        author = await lookup.author(asked.namespace, maker)
        if not author:
            raise DeniedError(
                f"CronJob/{maker['name']}: nothing says which user made it, as Weft was not there. "
                "Delete it and create it again."
            )
    if refusal := await lookup.refusal(author, team):
        raise DeniedError(f"CronJob/{maker['name']} is {author}'s: {refusal}" if maker is not None else refusal)
    fits(made, kind, team)
    made["metadata"]["annotations"] = {**texts(made, "annotations"), USER: author}
    _suspend(made, kind, True)
    return made


def _changed(asked: Asked, made: Json, kind: OwnerKind) -> None:
    """Refuse what would change the size of what is placed, or let it go without a place."""
    before, after = (at(one, "spec", "template") for one in (asked.old, made))
    if MADE_FOR in texts(asked.old, "annotations") and before != after:
        raise DeniedError(
            f"{asked.kind}: Weft made it for a service, and keeps spec.template as the service's job file says. "
            "Change the service: on its page, by REST or with `weft change`."
        )
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
    file = fits(made, kind, team)
    free = FREE_OF_DEPLOYMENTS if kind is DEPLOYMENT else FREE
    return {name: value for name, value in file.items() if name not in free}


def fits(made: Json, kind: OwnerKind, team: str, label: str = "") -> Json:
    """The job file that it becomes. Raises DeniedError with all that is wrong with it, said of `label`."""
    metadata = {"uid": "", "name": "", **made["metadata"]}
    if not metadata["name"] and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}x"
    try:
        file = job_file(Owner(kind, team, {**made, "metadata": metadata}))
        parse(file)
    except (UnfitError, SpecError) as error:
        raise DeniedError(f"{label or kind.kind}: {error}") from error
    return file


def _suspend(made: Json, kind: OwnerKind, on: bool) -> None:
    thing = made
    for part in kind.suspend[:-1]:
        thing[part] = dict(thing.get(part) or {})
        thing = thing[part]
    if kind.suspend:
        thing[kind.suspend[-1]] = on


def _cron_job(made: Json) -> Json | None:
    """The CronJob that made a Job, as its ownerReferences say."""
    references: list[Json] = made["metadata"].get("ownerReferences") or []
    for one in references:
        if one.get("controller") and (str(one.get("apiVersion")).partition("/")[0], one.get("kind")) == CRON_JOB:
            return one
    return None


async def _is_inside(asked: Asked, made: Json, lookup: Lookup) -> bool:
    """Whether it belongs to another object, which is queued or not in its stead: a JobSet's Job."""
    references: list[Any] = made["metadata"].get("ownerReferences") or []
    if not any(one.get("controller") for one in references):
        return False
    top: Top | None = await lookup.top(asked.namespace, references)
    return top is not None and top.kind is not None


def keep_stamps(made: Json, before: dict[str, str]) -> None:
    """What Weft has stamped stays, also in an object that is replaced as a whole; another value is refused."""
    after = texts(made, "annotations")
    for key, value in after.items():
        if key.startswith(STAMPED) and before.get(key) != value:
            raise DeniedError(f"metadata.annotations: {key} is Weft's. Leave it out.")
    missing = {key: value for key, value in before.items() if key.startswith(STAMPED) and key not in after}
    if missing:
        made["metadata"]["annotations"] = after | missing
