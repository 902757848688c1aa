"""Review of CronJobs in the namespace of a team: each of their Jobs is queued, for the user that wrote the CronJob.

The label stands in the template, as it is the Jobs that are queued. One without it is refused, and so are the Jobs of
one that was there before the namespace was adopted (owners.py): nothing runs there beside the queue without a word.
"""

from controlplane.adopted.kinds import JOB, QUEUE, USER, at
from controlplane.webhook import owners
from controlplane.webhook.review import STAMPED, Asked, DeniedError, Json, Lookup, shown, texts

FIELD = "spec.jobTemplate"
NUMBER = "-00000000"  # what Kubernetes puts behind the name of each Job


async def review(asked: Asked, lookup: Lookup) -> Json:
    """The object as it is to be stored. Raises DeniedError."""
    made: Json = {**asked.object, "metadata": dict(asked.object.get("metadata") or {})}
    owners.keep_stamps(made, texts(asked.old, "annotations"))
    if made["metadata"].get("deletionTimestamp") or (not asked.is_new and made.get("spec") == asked.old.get("spec")):
        return made
    team = lookup.team(asked.namespace)
    template, was = ((at(one, "spec", "jobTemplate") or {}) for one in (made, asked.old))
    if template == was and QUEUE not in texts(was, "labels"):
        return made  # from before the namespace was adopted: suspended, or another schedule; its Jobs are refused
    _labelled(template, team)
    if refusal := await lookup.refusal(asked.username, team):
        raise DeniedError(refusal)
    name = made["metadata"].get("name") or made["metadata"].get("generateName") or ""
    job = {
        "metadata": {"name": f"{name}{NUMBER}", "labels": texts(template, "labels")},
        "spec": template.get("spec") or {},
    }
    owners.fits(job, JOB, team, label=f"CronJob, in {FIELD}")
    made["metadata"]["annotations"] = {**texts(made, "annotations"), USER: asked.username}
    return made


def _labelled(template: Json, team: str) -> None:
    """Refuse a template whose Jobs would not be queued, or would say of themselves what only Weft says."""
    queue = texts(template, "labels").get(QUEUE)
    if queue is None:
        raise DeniedError(
            f"CronJob: {FIELD}.metadata.labels has no {QUEUE}. Write {QUEUE}: {team} there: then its Jobs are queued."
        )
    if queue != team:
        raise DeniedError(f"CronJob: {FIELD}.metadata.labels: {QUEUE} is {shown(queue)}. Here it is {shown(team)}.")
    for field in ("labels", "annotations"):
        for key in texts(template, field):
            if key.startswith(STAMPED):
                raise DeniedError(f"CronJob: {FIELD}.metadata.{field}: {key} is Weft's. Leave it out.")
