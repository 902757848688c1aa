"""Pytest plugin: tells over a socket what is collected, begins, fails and ends, one JSON object a line.

`make test` starts each part of the tests with it: it collects, says how many tests it has, and waits for its turn.
"""

import json
import os
import socket
from typing import Any

import pytest

OPTION = "--progress-fd"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the socket."""
    parser.addoption(OPTION, type=int, help="file descriptor of the socket that hears how far the tests are")


def pytest_configure(config: pytest.Config) -> None:
    """Begin to tell if there is a listener."""
    number = config.getoption(OPTION)
    if number is not None:
        os.set_inheritable(number, False)  # a server of a test must not keep the socket open
        config.pluginmanager.register(Teller(socket.socket(fileno=number)))


class Teller:
    """Writes what happens to the socket."""

    def __init__(self, to: socket.socket) -> None:
        self._socket = to
        self._outcome = ""
        self._seconds = 0.0
        self._reason = ""
        self._missing = ""

    def _tell(self, event: str, **said: object) -> None:
        self._socket.sendall(json.dumps({"event": event, **said}).encode() + b"\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that cannot be loaded, or skips as a whole."""
        if report.failed:
            self._tell("failed", test=report.nodeid, text=_text(report))
            self._tell("ended", test=report.nodeid, outcome="failed", seconds=0.0, reason="", missing="")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Say how many tests there are, and wait until they may begin."""
        self._tell("collected", tests=len(session.items))
        if self._socket.recv(1) == b"":
            pytest.exit("the tests were stopped before this part began", returncode=0)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._outcome, self._seconds, self._reason, self._missing = "passed", 0.0, "", ""
        self._tell("began", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One of a test's three phases is over; what failed is told at once."""
        self._seconds += report.duration
        if report.failed:
            self._outcome = "failed"
            self._tell("failed", test=report.nodeid, text=_text(report))
        elif report.skipped and self._outcome == "passed" and not hasattr(report, "wasxfail"):
            self._outcome = "skipped"
            self._reason = _reason(report)
            self._missing = str(dict(report.user_properties).get("missing", ""))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test is over."""
        said: dict[str, Any] = {"outcome": self._outcome, "seconds": self._seconds}
        self._tell("ended", test=nodeid, reason=self._reason, missing=self._missing, **said)


def _text(report: pytest.CollectReport | pytest.TestReport) -> str:
    """What pytest shows of a failure: where, and what was captured."""
    captured = "".join(f"\n--- {title} ---\n{text}" for title, text in report.sections)
    return f"{report.longreprtext}{captured}"


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext
