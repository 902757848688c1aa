"""What a command needs from the outside: which server, as which user, and names turned into workloads."""

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from weft.config import Config, Context, load, path, resolve
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.client import Client

VIEWER = "viewer"  # a role that submits nothing
NO_SERVER = "No server is known. Sign in with `weft login URL`, or set WEFT_URL and WEFT_TOKEN."


@dataclass
class Session:
    """One call of the CLI: its global flags, and the client they lead to, opened when first used."""

    url: str = ""
    token: str = ""
    context_name: str = ""
    words_after_dashes: int = 0  # of the command line, behind `--`

    @cached_property
    def config(self) -> Config:
        """The stored configuration."""
        return load(path())

    @cached_property
    def context(self) -> Context:
        """The server and token in force."""
        return resolve(self.config, name=self.context_name, url=self.url, token=self.token, env=os.environ)

    @cached_property
    def client(self) -> "Client":
        """The connection."""
        if not self.context.url:
            raise WeftError(NO_SERVER)
        return connect(self.context.url, self.context.token)

    @cached_property
    def team(self) -> str:
        """The default team: that of the context, else the only one of the token; "" for none."""
        if self.context.team:
            return self.context.team
        me = self.client.whoami()
        bound = (me.token or {}).get("team")
        teams = [str(bound)] if bound else [str(one["team"]) for one in me.teams if one["role"] != VIEWER]
        return teams[0] if len(teams) == 1 else ""

    @property
    def name(self) -> str:
        """The context that login and logout write to."""
        return self.context_name or os.environ.get("WEFT_CONTEXT", "") or self.config.current

    def close(self) -> None:
        """Close the connection if one was opened."""
        if "client" in self.__dict__:
            self.client.close()


def open_config() -> Config:
    """Return the stored configuration; for completion, which knows no session."""
    return load(path())


def connect(url: str, token: str = "") -> "Client":
    """Return a client; httpx is loaded here, so that commands which send nothing start without it."""
    # httpx loads its own command line tool with rich and pygments on import: 0.2 s of every command for nothing.
    blocked = "httpx._main" not in sys.modules
    if blocked:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        from weft.client import Client
    finally:
        if blocked:
            del sys.modules["httpx._main"]
    return Client(url, token)
