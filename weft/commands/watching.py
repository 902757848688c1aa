"""watch and open: what happens as it happens, and where a notebook is."""

import json
from typing import TYPE_CHECKING, Annotated, NoReturn
from urllib.parse import urlsplit

import typer

from weft import follow, output
from weft.errors import WeftError
from weft.output import Format
from weft.session import Session

if TYPE_CHECKING:
    from weft.answers import Event

GONE = 410
INSIDE = ".svc"  # a host that only pods reach


def watch(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="team/name, name or uid; without it all of your teams.")
    ] = "",
    team: Annotated[str, typer.Option(help="Only of this team, or the team of the name.")] = "",
    form: Annotated[Format, typer.Option("--output", "-o", help="table, or json: one event per line.")] = Format.TABLE,
) -> None:
    """Print events, one per line: of one workload until it has ended, otherwise until Ctrl-C.

    The exit code says how the workload ended, as `weft wait` does. After a broken connection it continues where it was.
    """
    session: Session = ctx.obj
    if form not in (Format.TABLE, Format.JSON):
        raise typer.BadParameter("Events are printed as table or json.")
    if not name:
        _watch_all(session, team, form)
    client = session.client
    workload = client.find(name, team=team)
    if not workload.has_ended:
        output.note(f"{workload.path} is {workload.phase}.")
        for event in client.watch(workload.uid, notice=output.note):
            _print(event, form)
        workload = client.read(workload.uid)
    output.note(f"{workload.path} has ended: {workload.phase}.")
    raise typer.Exit(follow.exit_code(workload))


def open_(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A notebook or service: team/name, name or uid.")],
    team: Annotated[str, typer.Option(help="Team of the name.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it runs.")] = False,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser", help="Open it in a browser (default: only if this machine can reach it)."
        ),
    ] = None,
) -> None:
    """Print the address of a notebook or service, and open it in the browser if it can be reached from here."""
    session: Session = ctx.obj
    workload = session.client.find(name, team=team)
    if wait and not workload.is_up:
        [workload] = follow.wait(session.client, [workload.uid], until="running", notice=output.note)
    if not workload.address:
        kind = "has ended" if workload.has_ended else f"is a {workload.type}, which has no address"
        raise WeftError(f"{workload.path} {kind}. `weft get -l type=notebook` lists what can be opened.")
    if not workload.is_up:
        output.note(
            f"{workload.path} is {workload.phase}: it can be reached once it runs. `weft open --wait` waits for that."
        )
    address = workload.address
    if workload.type == "notebook":
        address = str(session.client.connection(workload.uid).get("browser_url") or address)
    output.say(address)
    parts = urlsplit(address)
    is_inside = (parts.hostname or "").endswith(INSIDE)
    if is_inside:
        service, _, namespace = (parts.hostname or "").removesuffix(INSIDE).partition(".")
        command = f"kubectl -n {namespace} port-forward service/{service} {parts.port}"
        output.note(f"This address is inside the cluster. From here: {command}")
    if browser or (browser is None and not is_inside and output.is_terminal(output.stdout())):
        typer.launch(address)


def _watch_all(session: Session, team: str, form: Format) -> NoReturn:
    while True:
        try:
            for event in session.client.watch(team=team, notice=output.note):
                _print(event, form)
        except WeftError as error:
            if error.status != GONE:
                raise
            output.note(f"{error} Events in between are not shown; `weft get` lists the current state.")


def _print(event: "Event", form: Format) -> None:
    if form == Format.JSON:
        output.say(json.dumps(event.document, ensure_ascii=False))
        return
    who = f"{event.team}/{event.name}"
    why = ": ".join(filter(None, (event.reason, event.message)))
    output.say(output.clean(f"{output.clock(event.cluster_at)}  {who}  {event.kind}{f'  {why}' if why else ''}"))
