"""config: the stored sign-ins, each a server with a token, by name."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from weft import config, output
from weft.errors import WeftError
from weft.output import Column, Format
from weft.session import Session, open_config
from weft.urls import normalise_url

SHOWN = 10  # characters of a token: enough to know it by, as the server lists it
Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=lambda: sorted(open_config().contexts))]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show and change the stored servers, and which one is used.",
)


@app.command("get")
def get(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only this one.")] = "",
    form: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
) -> None:
    """List the contexts; * is the current one. Tokens are shortened: `weft token` prints the one in use."""
    stored: config.Config = ctx.obj.config
    if name:
        _known(stored, name)
    rows = [_Row(stored, one) for one in sorted(stored.contexts) if name in ("", one)]
    output.show(rows, COLUMNS, form, one=bool(name), empty="No server is known. Sign in with `weft login URL`.")


@app.command("use")
def use(ctx: typer.Context, name: Name) -> None:
    """Make a context the current one."""
    stored: config.Config = ctx.obj.config
    _known(stored, name)
    config.save(replace(stored, current=name), config.path())
    output.say(f"{name} is now the current context: {stored.contexts[name].url}.")


@app.command("set")
def set_(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new context, or one to change.")],
    team: Annotated[str | None, typer.Option(help="The default team, for commands that name none.")] = None,
) -> None:
    """Make or change a context, by --url, --token (- reads it from stdin) and --team.

    The current context stays the current one.
    """
    session: Session = ctx.obj
    stored = session.config
    before = stored.contexts.get(name, config.Context())
    url = normalise_url(session.url) if session.url else before.url
    if not url:
        raise WeftError(f"{name} is new. Give its server: weft config set {name} --url https://weft.example.")
    token = sys.stdin.readline().strip() if session.token == "-" else session.token  # noqa: S105 - a dash
    if url != before.url and not token:
        before = replace(before, token="", user="")  # a token is for its own server
    after = replace(before, url=url, token=token or before.token, team=before.team if team is None else team)
    current = stored.current if stored.contexts else name
    config.save(replace(stored, current=current, contexts={**stored.contexts, name: after}), config.path())
    output.say(
        f"{name} is {after.url}{' with a token' if after.token else ', without a token: weft login ' + after.url}."
    )


@app.command("delete")
def delete(ctx: typer.Context, name: Name) -> None:
    """Delete a context and its token; the token stays valid on the server until it expires (`weft logout` ends it)."""
    stored: config.Config = ctx.obj.config
    _known(stored, name)
    left = {other: one for other, one in stored.contexts.items() if other != name}
    current = stored.current if stored.current != name else next(iter(sorted(left)), config.DEFAULT)
    config.save(config.Config(current, left), config.path())
    output.say(
        f"{name} is deleted."
        + (f" {current} is now the current context." if left and current != stored.current else "")
    )


class _Row:
    """One context as it is shown."""

    def __init__(self, stored: config.Config, name: str) -> None:
        one = stored.contexts[name]
        self.name = name
        self.is_current = name == stored.current
        self.context = one
        self.token = f"{one.token[:SHOWN]}..." if one.token else ""
        same = {"url": one.url, "user": one.user, "team": one.team, "token": self.token}
        self.document = {"name": name, "is_current": self.is_current, **same}


COLUMNS: tuple[Column, ...] = (
    Column("", lambda row: "*" if row.is_current else ""),
    Column("NAME", lambda row: row.name),
    Column("SERVER", lambda row: row.context.url),
    Column("USER", lambda row: row.context.user or "-"),
    Column("TEAM", lambda row: row.context.team or "-"),
    Column("TOKEN", lambda row: row.token or "-"),
)


def _known(stored: config.Config, name: str) -> None:
    if name not in stored.contexts:
        known = ", ".join(sorted(stored.contexts)) or "none"
        raise WeftError(f"There is no context {name!r} (known: {known}). Create it with `weft config set` or `login`.")
