"""`weft`: the command line for people and for CI. HTTP only; exit codes: docs/cli.md#exit-codes.

Answers go to stdout, everything else to stderr. Nothing heavy is imported here: `weft --help` starts with typer alone.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from weft import output
from weft.commands import (
    account,
    act,
    contexts,
    diagnose,
    files,
    inspect,
    ledger,
    read,
    report,
    revise,
    sharing,
    submit,
    totals,
    watching,
)
from weft.errors import NotSignedIn, WaitTimeout, WeftError
from weft.session import Session

OK, ERROR, TIMEOUT, REFUSED = 0, 1, 4, 5  # 3 and 6 say how a job ended: weft.follow.exit_code
# Refusals by quota or policy, not faults of the request (a 403 is one as well).
REFUSALS = frozenset(
    {
        "BudgetExhausted",
        "ExceedsMaxQuota",
        "Forbidden",
        "NeverPlaceable",
        "NonPreemptibleOverQuota",
        "OverLimit",
        "RefusedByPolicy",
    }
)
CONFLICT = 409
GLOBAL = ("--url", "--token", "--context")

app = typer.Typer(
    name="weft",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 succeeded, 1 error, 2 usage, 3 job failed, 4 timeout, 5 refused by quota or policy, "
    "6 stopped, or preempted permanently. --url, --token and --context are allowed anywhere.",
)


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str, typer.Option("--url", help="The server (default: WEFT_URL, then the one of `weft login`).")
    ] = "",
    token: Annotated[str, typer.Option("--token", help="An API token (default: WEFT_TOKEN).")] = "",
    context: Annotated[
        str, typer.Option("--context", help="Which stored context to use (default: WEFT_CONTEXT).")
    ] = "",
) -> None:
    """Weft: submit work to a shared GPU cluster, and see what runs and why something waits."""
    ctx.obj = Session(url=url, token=token, context_name=context, words_after_dashes=ctx.obj or 0)
    ctx.call_on_close(ctx.obj.close)


for command in (
    account.login,
    account.logout,
    account.whoami,
    account.token,
    submit.submit,
    files.apply,
    files.diff,
    files.delete,
    submit.wait,
    watching.watch,
    read.get,
    inspect.describe,
    inspect.why,
    diagnose.diagnose,
    diagnose.reallocation,
    diagnose.stragglers,
    inspect.logs,
    act.stop,
    act.suspend,
    act.resume,
    act.requeue,
    act.extend,
    act.scale,
    act.resize,
    act.priority,
    revise.change,
    revise.price,
    revise.revisions,
    revise.promote,
    revise.rollback,
    act.suggestion,
    read.queue,
    read.top,
    ledger.gpus,
    totals.quota,
    totals.budget,
    sharing.sharing,
    sharing.parking,
    sharing.demand,
    sharing.pool,
    totals.usage,
):
    app.command()(command)
app.command("open")(watching.open_)
app.command("remedy", hidden=True)(act.remedy)
app.add_typer(report.app, name="report")
app.add_typer(contexts.app, name="config")


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; typer makes 2 of wrong usage and 130 of Ctrl-C."""
    try:
        behind = len(arguments) - arguments.index("--") - 1 if "--" in arguments else 0
        app(global_first(arguments), prog_name="weft", obj=behind)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else OK
    except WeftError as error:
        tell(error)
        return exit_code(error)
    return OK


def global_first(arguments: Sequence[str]) -> list[str]:
    """Move the global options to the front, where typer wants them; `--` ends the search."""
    rest, moved = list(arguments), []
    end = rest.index("--") if "--" in rest else len(rest)
    at = 0
    while at < end:
        name, sign, _ = rest[at].partition("=")
        if name not in GLOBAL:
            at += 1
            continue
        size = 1 if sign else 2
        moved += rest[at : at + size]
        del rest[at : at + size]
        end -= size
    return moved + rest


def exit_code(error: WeftError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, WaitTimeout):
        return TIMEOUT
    return REFUSED if error.code in REFUSALS or error.status == 403 else ERROR


def tell(error: WeftError) -> None:
    """Print an error: a line for each fault, with file and line where there is one, the field, and the fix."""
    named = [one for one in error.errors if one.message]
    if not named or not error.status:
        output.error(str(error))
    for fault in named if error.status else ():
        place, field = error.where(fault.field) if error.where else ("", fault.field)
        # Of a conflict, the field is the server's (`phase`), nothing that was written here.
        is_said = not field or field in fault.message or error.status == CONFLICT
        output.error("".join([f"{place}: " if place else "", "" if is_said else f"{field}: ", fault.message]))
    if isinstance(error, NotSignedIn):
        output.note("Sign in with `weft login URL`, or set WEFT_TOKEN.")
    if error.retry_after:
        output.note(f"Try again in {output.span(error.retry_after)}.")
