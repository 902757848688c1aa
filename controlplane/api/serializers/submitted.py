"""What is sent to be submitted: job files, or the Workload objects of Kubernetes that stand for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings

from controlplane.api.refusals import Faulty
from controlplane.jobspec.shapes import FieldError
from controlplane.jobspec.spec import SpecError
from controlplane.kubeobjects import jobs
from controlplane.kubeobjects.jobs import Job
from controlplane.services.errors import Refused

MAX_IN_BATCH = 100
SUSPENDED = "spec.suspend"


def read_job(body: Any) -> Job:
    """A job file or a Workload object. Raises SpecError with every fault."""
    return jobs.read(body, settings.NAMESPACE_PREFIX)


def read_unsuspended(body: Any) -> Job:
    """The same where a job is only compared or tried: that it rests is no part of it."""
    job = read_job(body)
    if job.is_suspended:
        fix = "Leave it out here; `weft suspend NAME` suspends what is there."
        raise Faulty([FieldError(SUSPENDED, f"{SUSPENDED} is true, which is no part of the job. {fix}")])
    return job


def read_batch(body: Any) -> list[Job]:
    """A list of these; the faults of all of them, each field with its place in the list."""
    if not isinstance(body, list) or not 0 < len(body) <= MAX_IN_BATCH:
        raise Faulty([FieldError("", f"Send a list of 1 to {MAX_IN_BATCH} job files.")])
    found, faults = [], []
    for i, one in enumerate(body):
        try:
            found.append(read_job(one))
        except SpecError as error:
            faults += [FieldError(f"{i}.{e.field}".rstrip("."), e.message) for e in error.errors]
    if faults:
        raise SpecError(faults)
    return found


@contextmanager
def named(sent: Sequence[Job], *, is_batch: bool = False) -> Iterator[None]:
    """What is refused inside is told of the fields of what was sent."""
    try:
        yield
    except Refused as error:
        number, _, rest = error.field.partition(".")
        is_numbered = is_batch and number.isdecimal() and int(number) < len(sent)
        about = [sent[int(number)]] if is_numbered else sent  # some refusals of a batch do not say which one they mean
        if not all(one.is_object for one in about):
            raise
        name = rest if is_numbered else error.field
        field = about[0].field(name)
        message = f"{field}{error.message[len(name) :]}" if name and error.message.startswith(name) else error.message
        told = f"{number}.{field}" if is_numbered else field
        raise Refused(error.status, error.code, told, message) from error
