"""apply, diff, delete: workloads as their job files describe them."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft import jobs, manifests, output
from weft.commands import act
from weft.commands.submit import Located, follow_to_end, from_files
from weft.errors import NotFound
from weft.output import Format
from weft.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.answers import Workload
    from weft.documents import Document

File = Annotated[list[str], typer.Option("--file", "-f", metavar="FILE", help="Job file; - is stdin; repeatable.")]
Team = Annotated[str, typer.Option(help="Team for files that name none.")]
Form = Annotated[Format, typer.Option("--output", "-o", help="Output format.")]


def apply(
    ctx: typer.Context,
    file: File,
    team: Team = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it ends; a service or notebook: until it runs.")] = (
        False
    ),
    timeout: Annotated[str, typer.Option(help="With --wait: stop waiting after this time, such as 30m (exit 4).")] = "",
    form: Form = Format.TABLE,
) -> None:
    """Submit job files, or update the live workloads of the same names to match them.

    The files are applied one after the other. The first refusal ends the command; earlier files stay applied.
    """
    session: Session = ctx.obj
    limit = jobs.seconds(timeout) if timeout else None
    done = []
    for one in from_files(file, jobs.Flags(type="", team=team)):
        with Located([one]):
            applied = session.client.apply(_body(session, one, team))
        done.append(applied)
        if form.is_text:
            changed = f": {', '.join(applied.changed)}" if applied.changed else ""
            output.say(f"{applied.workload.path} {applied.outcome}{changed}")
    workloads = [one.workload for one in done]
    if form == Format.NAME:
        output.show(workloads, (), form)
    elif not form.is_text:
        output.dump(done[0].document if len(done) == 1 else [one.document for one in done], form)
    if wait:
        raise typer.Exit(follow_to_end(session, workloads, "ready", limit))


def diff(
    ctx: typer.Context,
    file: File,
    team: Team = "",
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 if something differs.")] = False,
    form: Form = Format.TABLE,
) -> None:
    """Show what `weft apply` would change; nothing is written."""
    session: Session = ctx.obj
    told = []
    for one in from_files(file, jobs.Flags(type="", team=team)):
        body = _body(session, one, team)
        with Located([one]):
            found = session.client.diff(body)
        told.append({"name": manifests.path_of(body), **found.document})
    if form.is_text:
        for each in told:
            _say(each)
    elif form == Format.NAME:
        for each in told:
            output.say(each["name"])
    else:
        output.dump(told[0] if len(told) == 1 else told, form)
    if exit_code and any(each["uid"] is None or each["differences"] for each in told):
        raise typer.Exit(1)


def delete(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="team/name, name or uid.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="A job file that names them; repeatable.")
    ] = None,
    team: Annotated[str, typer.Option(help="Team of the names, and for files that name none.")] = "",
    yes: act.Yes = False,
) -> None:
    """Stop workloads permanently, by name or by job file; their records stay. Names that do not exist are reported."""
    session: Session = ctx.obj
    if bool(names) == bool(file):
        raise typer.BadParameter("Give names or files: weft delete NAME..., or weft delete -f FILE.")
    if names:
        act.stop(ctx, names, team, yes)
        return
    found: list[Workload] = []
    # The last first: what waits for others does not start when they end.
    for one in reversed(from_files(file or [], jobs.Flags(type="", team=team))):
        body = _body(session, one, team)
        live = _live(session, one, body)
        if live is None:
            output.say(f"{manifests.path_of(body)} does not exist.")
        else:
            found.append(live)
    act.end(session, found, yes)


def _live(session: Session, one: "Document", body: dict[str, Any]) -> "Workload | None":
    """The workload that a file names; the server knows whose namespace an object's is."""
    if manifests.is_object(body) and "team" not in body:
        spec = {name: value for name, value in manifests.job_of(body).items() if name != "suspend"}
        with Located([one]):
            uid = session.client.diff({**body, "spec": spec}).uid
        return session.client.read(uid) if uid else None
    try:
        return session.client.find(manifests.path_of(body))
    except NotFound:
        return None


def _body(session: Session, one: "Document", team: str) -> dict[str, Any]:
    return jobs.with_team(dict(one.fields), team or ("" if manifests.names_team(one.fields) else session.team))


def _say(each: "Mapping[str, Any]") -> None:
    """Print one comparison: a line for each field, as it is and as it would be."""
    if each["uid"] is None:
        output.say(f"{each['name']} would be created.")
    elif not each["differences"]:
        output.say(f"{each['name']} is unchanged.")
    else:
        output.say(f"{each['name']} differs:")
    for one in each["differences"]:
        before, after = (_short(one[name]) for name in ("before", "after"))
        cannot = "" if one["can_change"] else "   (cannot be changed: submit a new workload)"
        output.say(f"  {one['field']}: {before} -> {after}{cannot}")


def _short(value: Any) -> str:
    return "none" if value is None else output.clean(json.dumps(value, ensure_ascii=False))
