"""apply, diff, delete: job files as what their names should be."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controlplane.client import jobs, output
from controlplane.client.commands import act
from controlplane.client.commands.submit import Located, follow_to_end, from_files
from controlplane.client.errors import NotFound
from controlplane.client.output import Format
from controlplane.client.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.client.answers import Workload
    from controlplane.client.documents import Document

File = Annotated[list[str], typer.Option("--file", "-f", metavar="FILE", help="Job file; - is stdin; repeatable.")]
Team = Annotated[str, typer.Option(help="Team where a file names none.")]
Form = Annotated[Format, typer.Option("--output", "-o", help="How to print the answer.")]


def apply(
    ctx: typer.Context,
    file: File,
    team: Team = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end (a service or notebook: until it runs).")] = (
        False
    ),
    timeout: Annotated[str, typer.Option(help="With --wait: give up waiting after 30m (exit 4).")] = "",
    form: Form = Format.TABLE,
) -> None:
    """Submit job files, or change the live workloads of their names to what the files say.

    One after the other; the first that is refused ends it, and those before it stay as they are.
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
        told.append({"name": f"{body.get('team', '')}/{body.get('name', '')}", **found.document})
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
        list[str] | None, typer.Option("--file", "-f", metavar="FILE", help="The names of a job file; repeatable.")
    ] = None,
    team: Annotated[str, typer.Option(help="Team of the names, and where a file names none.")] = "",
    yes: act.Yes = False,
) -> None:
    """End workloads for good, by name or those of job files; their records stay. What is not there is told."""
    session: Session = ctx.obj
    if bool(names) == bool(file):
        raise typer.BadParameter("Say which: weft delete NAME..., or weft delete -f FILE.")
    if names:
        act.stop(ctx, names, team, yes)
        return
    found: list[Workload] = []
    # The last first: what waits for others does not start when they end.
    for one in reversed(from_files(file or [], jobs.Flags(type="", team=team))):
        body = _body(session, one, team)
        path = f"{body.get('team', '')}/{body.get('name', '')}"
        try:
            found.append(session.client.find(path))
        except NotFound:
            output.say(f"{path} is not there.")
    act.end(session, found, yes)


def _body(session: Session, one: "Document", team: str) -> dict[str, Any]:
    return jobs.with_team(dict(one.fields), team or ("" if "team" in one.fields else session.team))


def _say(each: "Mapping[str, Any]") -> None:
    """Print one comparison: a line for each field, as it is and as it would be."""
    if each["uid"] is None:
        output.say(f"{each['name']} would be created.")
    elif not each["differences"]:
        output.say(f"{each['name']} is the same.")
    else:
        output.say(f"{each['name']} differs:")
    for one in each["differences"]:
        before, after = (_short(one[name]) for name in ("before", "after"))
        cannot = "" if one["can_change"] else "   (cannot change: submit a new workload)"
        output.say(f"  {one['field']}: {before} -> {after}{cannot}")


def _short(value: Any) -> str:
    return "none" if value is None else output.clean(json.dumps(value, ensure_ascii=False))
