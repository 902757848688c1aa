"""login, logout, token, whoami."""

import getpass
import socket
import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from weft import config, output
from weft.config import LOOPBACK
from weft.errors import NotReachable, NotSignedIn, WeftError
from weft.output import Format
from weft.session import Session, connect

if TYPE_CHECKING:
    from weft.client import Client


def login(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(help="The server, such as https://weft.example.")],
    username: Annotated[str, typer.Option("--username", "-u", help="Sign in as this user; asks for a password.")] = "",
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read the password from stdin.")] = False,
) -> None:
    """Sign in to a server and remember it.

    With --token TOKEN (- reads it from stdin) no password is asked for.
    """
    session: Session = ctx.obj
    given = session.token
    token = sys.stdin.readline().strip() if given == "-" else given
    if not token:
        name = username or _ask("User name: ")
        password = sys.stdin.readline().rstrip("\n") if password_stdin else _ask_password(name)
        with connect(url) as client:
            token = _exchange(client, name, password)
    with connect(url, token) as client:
        me = client.whoami()
        address = client.url
    teams = [str(one["team"]) for one in me.teams]
    context = config.Context(address, token, me.username, teams[0] if len(teams) == 1 else "")
    config.save(session.config.with_context(context, session.name), config.path())
    output.say(f"Signed in to {address} as {me.username} ({_roles(me.is_platform_admin, me.teams)}).")
    if address.startswith("http://") and not _is_loopback(address):
        output.note("warning: this server is reached without TLS, so the token can be read on the way.")


def logout(ctx: typer.Context) -> None:
    """Revoke the stored token and delete it from this machine."""
    session: Session = ctx.obj
    stored = session.config.contexts.get(session.name, config.Context())
    if not stored.token:
        output.say("You are not signed in.")
        return
    try:
        with connect(stored.url, stored.token) as client:
            own = client.whoami().token
            if own:
                client.revoke_token(int(own["id"]))
    except NotSignedIn:
        pass  # expired or deleted already
    except NotReachable as error:
        output.note(f"warning: {error} The token stays valid there until it expires.")
    config.save(session.config.without_token(session.name), config.path())
    output.say(f"Signed out of {stored.url}.")


def token(ctx: typer.Context) -> None:
    """Print the token in use, for curl and other tools."""
    session: Session = ctx.obj
    if not session.context.token:
        raise WeftError("You are not signed in. Sign in with `weft login URL`, or set WEFT_TOKEN.")
    output.say(session.context.token)


def whoami(
    ctx: typer.Context,
    form: Annotated[Format, typer.Option("--output", "-o", help="Output format.")] = Format.TABLE,
) -> None:
    """Show the user, roles and server in use."""
    session: Session = ctx.obj
    me = session.client.whoami()
    if not form.is_text:
        if form == Format.NAME:
            output.say(me.username)
        else:
            output.dump(me.document, form)
        return
    token = me.token or {}
    output.say(
        output.pairs(
            (
                ("User", me.username),
                ("Roles", _roles(me.is_platform_admin, me.teams)),
                ("Server", session.client.url),
                ("Token", f"{token['prefix']}... until {output.clock(token['expires_at'])}" if token else ""),
                ("Default team", session.context.team),
            )
        )
    )


def _exchange(client: "Client", username: str, password: str) -> str:
    """A token for a password; asks for the code of a user with two-factor authentication."""
    called = f"weft on {socket.gethostname()}"[:80]
    try:
        return client.login(username, password, name=called).token
    except NotSignedIn as refused:
        if refused.code != "CodeNeeded":
            raise
    return client.login(username, password, name=called, code=_ask("Code of the authenticator app: ")).token


def _roles(is_admin: bool, teams: object) -> str:
    named = [f"{one['role']} of {one['team']}" for one in teams] if isinstance(teams, list | tuple) else []
    return ", ".join([*(["platform admin"] if is_admin else []), *named]) or "no team"


def _ask(prompt: str) -> str:
    if not sys.stdin.isatty():
        raise WeftError("There is no terminal to ask on. Give --token, or --username with --password-stdin.")
    sys.stderr.write(prompt)
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer:
        raise WeftError("Nothing was given.")
    return answer


def _ask_password(username: str) -> str:
    if not sys.stdin.isatty():
        raise WeftError("There is no terminal to ask on. Give --token, or --password-stdin.")
    return getpass.getpass(f"Password of {username}: ")


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK
