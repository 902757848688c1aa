"""report: how services kept their objectives in a month."""

from typing import Annotated

import typer

from weft import output
from weft.commands.read import Form
from weft.output import Format
from weft.session import Session

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show reports of a month.",
)


@app.callback()
def reports() -> None:
    """Show reports of a month."""


@app.command("sla")
def sla(
    ctx: typer.Context,
    team: Annotated[str, typer.Option(help="Only of this team.")] = "",
    month: Annotated[
        str, typer.Option(help="Such as 2026-11 (default: the running one, by the cluster's clock).")
    ] = "",
    is_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, a row for each service.")] = False,
    form: Form = Format.TABLE,
) -> None:
    """Show how the services of your teams kept their objectives in a calendar month (UTC)."""
    from weft import columns

    session: Session = ctx.obj
    if is_csv:
        output.say(session.client.sla_report_csv(team=team, month=month).replace("\r\n", "\n").rstrip("\n"))
        return
    found = session.client.sla_report(team=team, month=month)
    if not form.is_text:
        output.dump(found, form if form != Format.NAME else Format.JSON)
        return
    rows = [columns.ServiceRow(row) for row in found["rows"]]
    output.show(rows, columns.MONTH, form, empty=f"No service with an objective is known of in {found['month']}.")
    if rows and found["noted_until"] < found["to"]:
        output.note(f"{found['month']} is known up to {output.clock(found['noted_until'])} UTC.")
