"""submit and wait."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import jobs, manifests, output
from weft.errors import WeftError
from weft.output import Format
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Preview, Workload
    from weft.documents import Document


class DryRun(StrEnum):
    """What checks the job: this program (is it a job file at all), or the server (would it start)."""

    CLIENT = "client"
    SERVER = "server"


MaxLimit = Annotated[
    float | None, typer.Option(help="Of a service: up to what the limit is raised before another replica starts.")
]
OnDemand = Annotated[bool, typer.Option("--on-demand", help="Of a notebook: it has a GPU only while a cell runs.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TYPE] [-- COMMAND...]", help="training, notebook or inference.", autocompletion=lambda: jobs.TYPES
    ),
]


def submit(  # one argument for each flag, as typer wants them; jobs.Flags takes those of the job from ctx.params
    ctx: typer.Context,
    words: Words = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="Job file; - is stdin; repeatable.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the workload.")] = "",
    team: Annotated[str, typer.Option(help="Team whose quota it uses (default: WEFT_TEAM, or your only team).")] = "",
    image: Annotated[str, typer.Option(help="Container image.")] = "",
    gpus: Annotated[int | None, typer.Option(help="Whole GPUs per worker.")] = None,
    gpu_model: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Allowed GPU model; repeatable.")] = None,
    gpu_share: Annotated[float | None, typer.Option(help="Guaranteed part of one GPU, such as 0.3.")] = None,
    gpu_share_limit: Annotated[float | None, typer.Option(help="Most of the GPU that a share may use if idle.")] = None,
    gpu_share_max_limit: MaxLimit = None,
    gpu_memory: Annotated[str, typer.Option(help="GPU memory, such as 10Gi: of a share, else the minimum.")] = "",
    on_demand: OnDemand = False,
    cpu: Annotated[str, typer.Option(help="CPU cores per worker, such as 8 or 500m.")] = "",
    memory: Annotated[str, typer.Option(help="Memory per worker, such as 64Gi.")] = "",
    workers: Annotated[int | None, typer.Option(help="Number of workers, or of replicas of a service.")] = None,
    min_workers: Annotated[int | None, typer.Option("--min", help="Minimum of workers or replicas.")] = None,
    max_workers: Annotated[int | None, typer.Option("--max", help="Maximum of workers or replicas.")] = None,
    priority_class: Annotated[str, typer.Option("--priority-class", help="Priority class.")] = "",
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Environment variable; repeatable.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port on which a service listens.")] = None,
    after: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Start after this one; repeatable.")] = None,
    expected_duration: Annotated[str, typer.Option(help="Expected run time, such as 6h (a hint).")] = "",
    max_duration: Annotated[str, typer.Option(help="Maximum run time, such as 12h.")] = "",
    checkpoint_interval: Annotated[str, typer.Option(help="How often it saves a checkpoint, such as 10m.")] = "",
    retries: Annotated[int | None, typer.Option(help="How often it is restarted after a failure.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it ends; a service or notebook: until it runs.")] = (
        False
    ),
    timeout: Annotated[str, typer.Option(help="With --wait: stop waiting after this time, such as 30m (exit 4).")] = "",
    dry_run: Annotated[DryRun | None, typer.Option(help="Submit nothing: check here, or ask the server.")] = None,
    key: Annotated[str, typer.Option("--idempotency-key", help="The same key submits only once within 24 h.")] = "",
    form: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
) -> None:
    """Submit one job by flags, or all jobs of job files (all or none).

    weft submit training --name hello --team nlp --image example/train:1 --gpus 1 -- python train.py
    """
    session: Session = ctx.obj
    _refuse_extra(words or (), session.words_after_dashes)
    given = jobs.Flags.of(words or (), ctx.params)
    limit = jobs.seconds(timeout) if timeout else None
    documents = from_files(file, given) if file else []
    bodies = [dict(one.fields) for one in documents] if file else [jobs.job(given)]
    if not all(map(manifests.names_team, bodies)):
        bodies = [jobs.with_team(body, team or _team(session, dry_run)) for body in bodies]
    with Located(documents):
        if dry_run:
            _try(session, bodies, dry_run, form)
            return
        submitted = _submit(session, bodies, key)
    output.show(submitted, (), form) if form == Format.NAME else _announce(submitted, form, one=len(bodies) == 1)
    if wait:
        raise typer.Exit(follow_to_end(session, submitted, "ready", limit))


def _refuse_extra(words: Sequence[str], behind: int) -> None:
    """Before `--` stands the type alone: one word more would run as the job's command."""
    before = words[: len(words) - behind]
    if len(before) > 1:
        example = f"weft submit {before[0]} ... -- {' '.join(words[1:])}"
        raise typer.BadParameter(f"{before[1]} is not expected here. Write the job's command after --: {example}")


def _team(session: Session, dry_run: DryRun | None) -> str:
    """The default team; what is only read here asks no server."""
    return session.context.team if dry_run == DryRun.CLIENT else session.team


def wait(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="team/name, name or uid.")],
    until: Annotated[str, typer.Option("--for", help="ready, running, terminal, or a phase such as Suspended.")] = (
        "ready"
    ),
    timeout: Annotated[str, typer.Option(help="Stop waiting after this time, such as 30m (exit 4).")] = "",
    team: Annotated[str, typer.Option(help="Team of the names.")] = "",
) -> None:
    """Wait for workloads; the exit code says how they ended.

    ready is the end of a training, and for a service or notebook that it runs.
    """
    session: Session = ctx.obj
    limit = jobs.seconds(timeout) if timeout else None
    until = _known(until)
    workloads = [session.client.find(name, team=team) for name in names]
    raise typer.Exit(follow_to_end(session, workloads, until, limit))


def _known(until: str) -> str:
    """Refuse a state that no workload is ever in: it would be waited for until the end."""
    from weft.answers import PHASES

    states = ("ready", "running", "terminal", *PHASES)
    found = next((state for state in states if state.lower() == until.lower()), None)
    if found is None:
        raise typer.BadParameter(f"--for {until} is not a state. Use one of {', '.join(states)}.")
    return found


def follow_to_end(session: Session, workloads: "Sequence[Workload]", until: str, timeout: float | None) -> int:
    """Wait, telling each change on stderr, and return the exit code: the first that is not 0."""
    from weft import follow
    from weft.progress import Progress

    try:
        with Progress() as progress:
            ended = follow.wait(
                session.client,
                [one.uid for one in workloads],
                until=until,
                timeout=timeout,
                seen=progress.tell,
                notice=progress.note,
            )
    except KeyboardInterrupt:
        names = " ".join(one.path for one in workloads)
        goes_on = "goes on" if len(workloads) == 1 else "go on"
        output.note(f"\nStopped waiting; {names} {goes_on}. Watch with `weft wait {names}`, end with `weft stop`.")
        raise
    return next((code for code in map(follow.exit_code, ended) if code), 0)


class Located:
    """Puts file and line before the faults that the server finds in a job file."""

    def __init__(self, documents: "Sequence[Document]") -> None:
        self.documents = documents

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WeftError) and self.documents:
            error.where = self._where

    def _where(self, field: str) -> tuple[str, str]:
        """Return file:line and the field itself: a batch names `1.workers.min`, document 1's."""
        number, _, rest = field.partition(".")
        if len(self.documents) > 1:
            if not number.isdecimal() or int(number) >= len(self.documents):
                return "", field
            return self.documents[int(number)].where(rest), rest
        return self.documents[0].where(field), field


def from_files(names: Sequence[str], flags: jobs.Flags) -> "list[Document]":
    """Return the documents of job files, beside which no flags of a job may stand."""
    if flags != jobs.Flags(type="", team=flags.team):
        raise typer.BadParameter("Describe a job by --file or by flags. With --file only --team is allowed.")
    from weft import documents

    return documents.load(names)


def _submit(session: Session, bodies: Sequence[dict[str, Any]], key: str) -> "Sequence[Workload]":
    if len(bodies) == 1:
        return [session.client.submit(bodies[0], key=key)]
    return session.client.submit_all(bodies, key=key)


def _announce(submitted: "Sequence[Workload]", form: Format, *, one: bool) -> None:
    if not form.is_text:
        output.dump(submitted[0].document if one else [each.document for each in submitted], form)
        return
    for each in submitted:
        place = f", position {each.position} in the queue" if each.position else ""
        output.say(f"{each.path} submitted: {each.phase}{place} ({each.uid})")


def _try(session: Session, bodies: Sequence[dict[str, Any]], dry_run: DryRun, form: Format) -> None:
    if dry_run == DryRun.CLIENT:
        faults = [body for body in bodies if manifests.type_of(body) not in jobs.TYPES]
        if faults:
            field = "spec.type" if manifests.is_object(faults[0]) else "type"
            raise WeftError(f"{field} is {manifests.type_of(faults[0])!r}. Write {', '.join(jobs.TYPES)}.")
        output.dump(bodies[0] if len(bodies) == 1 else list(bodies), Format.YAML if form.is_text else form)
        return
    previews = [_preview(session, bodies, number) for number in range(len(bodies))]
    if not form.is_text:
        documents = [preview.document for preview in previews]
        output.dump(documents[0] if len(bodies) == 1 else documents, form)
        return
    for body, preview in zip(bodies, previews, strict=True):
        first = ", ".join(_inner(body, bodies))
        verdict = f"after {first}, {_verdict(preview)}" if first else _verdict(preview)
        output.say(f"{manifests.path_of(body)}: {verdict}")
        output.say_suggestions(preview.suggestions, preview.no_suggestions)


def _preview(session: Session, bodies: Sequence[dict[str, Any]], number: int) -> "Preview":
    """Preview one of several jobs, as if those before it in the pipeline were met: the server knows none of them."""
    body = bodies[number]
    inner = _inner(body, bodies)
    if inner:
        after = manifests.job_of(body)["after"]
        body = manifests.with_after(body, [one for one in after if _named(one) not in inner])
    try:
        return session.client.preview(body)
    except WeftError as error:
        if len(bodies) > 1:
            error.prefix(str(number))
        raise


def _inner(body: dict[str, Any], bodies: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names in `after` that are jobs of the same submission."""
    given = (manifests.name_of(one) for one in bodies if manifests.is_same_team(one, body))
    names = {name for name in given if isinstance(name, str)}
    after = manifests.job_of(body).get("after")
    return [name for name in map(_named, after) if name and name in names] if isinstance(after, list) else []


def _named(one: Any) -> str:
    """Return the name in an entry of `after`: the entry itself, or {name, when}."""
    name = one.get("name") if isinstance(one, dict) else one
    return name if isinstance(name, str) else ""


def _verdict(preview: "Preview") -> str:
    places = ", ".join(
        f"{place.get('node')} GPU {','.join(map(str, place.get('gpus', [])))}" for place in preview.placement
    )
    leavers = ", ".join(map(output.leaver, preview.evicts))
    if preview.will_start:
        after = f" after the eviction of {leavers}" if leavers else " now"
        return f"would start{after}" + (f" on {places}" if places else "") + "."
    place = f", position {preview.position} of {preview.in_queue} in the queue" if preview.position else ""
    start = f" {output.expected(preview.expected_start)}" if preview.expected_start else ""
    return f"would wait{place}: {preview.reason}. {preview.message}{start}"
