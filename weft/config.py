"""Which server, as which user: flags beat the environment, the environment beats the file.

The file holds contexts by name, one of them current: $XDG_CONFIG_HOME/weft/config.json, readable by its owner only.
It is JSON because reading YAML would cost every command a tenth of a second.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from weft.errors import WeftError

DEFAULT = "default"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Context:
    """One server, the token for it, its user, and the default team."""

    url: str = ""
    token: str = ""
    user: str = ""
    team: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """The file: contexts by name and the current one."""

    current: str = DEFAULT
    contexts: Mapping[str, Context] = field(default_factory=dict)

    def with_context(self, context: Context, name: str) -> "Config":
        """Return it with one context put in and made current."""
        return Config(name, {**self.contexts, name: context})

    def without_token(self, name: str) -> "Config":
        """Return it with the token of one context forgotten; the address stays."""
        if name not in self.contexts:
            return self
        return replace(self, contexts={**self.contexts, name: replace(self.contexts[name], token="", user="")})


def path(env: Mapping[str, str] = os.environ) -> Path:
    """Return where the file is: $WEFT_CONFIG, else in the XDG config folder."""
    if env.get("WEFT_CONFIG"):
        return Path(env["WEFT_CONFIG"])
    base = env.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "weft" / "config.json"


def load(file: Path) -> Config:
    """Read the file; an empty configuration if there is none."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise WeftError(f"{file} cannot be read: {error}.") from None
    try:
        stored = json.loads(text)
        contexts = {str(name): _context(one) for name, one in stored["contexts"].items()}
        return Config(str(stored["current"]), contexts)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WeftError(f"{file} is damaged. Delete it and run `weft login URL` again.") from None


def save(config: Config, file: Path) -> None:
    """Write the file in one step, with mode 0600: a crash leaves the old one, and no one else reads a token."""
    document = {
        "current": config.current,
        "contexts": {
            name: {key: getattr(one, key) for key in Context.__slots__} for name, one in config.contexts.items()
        },
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, part = tempfile.mkstemp(dir=file.parent, prefix=".config-")  # made with mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(document, out, indent=2)
                out.write("\n")
            os.replace(part, file)
        except BaseException:
            os.unlink(part)
            raise
    except OSError as error:
        raise WeftError(f"{file} cannot be written: {error}. Set WEFT_CONFIG to a file that can.") from None


def resolve(config: Config, *, name: str = "", url: str = "", token: str = "", env: Mapping[str, str]) -> Context:
    """Return the server and token to use: flags, then WEFT_URL, WEFT_TOKEN and WEFT_TEAM, then the file."""
    chosen = name or env.get("WEFT_CONTEXT", "") or config.current
    if name and name not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise WeftError(f"There is no context {name!r} (known: {known}). Create it with `weft login URL`.")
    stored = config.contexts.get(chosen, Context())
    address = url or env.get("WEFT_URL", "") or stored.url
    # A stored token is for its own server: another address must not be sent it.
    own = stored.token if address.rstrip("/") == stored.url.rstrip("/") else ""
    return Context(
        url=address,
        token=token or env.get("WEFT_TOKEN", "") or own,
        user=stored.user,
        team=env.get("WEFT_TEAM", "") or stored.team,
    )


def _context(stored: Mapping[str, object]) -> Context:
    return Context(**{key: str(stored.get(key) or "") for key in Context.__slots__})
