"""What Weft is made of: the bill of materials is whole, and known weaknesses are looked for."""

import json
import os
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SITE = Path(sysconfig.get_path("purelib"))
OURS = {"_virtualenv.py", "_virtualenv.pth", "distutils-precedence.pth"}  # of the environment, not of a package


@pytest.fixture(scope="module")
def bill() -> dict[str, Any]:
    made = subprocess.run([sys.executable, ROOT / "scripts" / "sbom.py"], capture_output=True, text=True, check=True)
    return json.loads(made.stdout)  # type: ignore[no-any-return]


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def test_every_installed_file_is_of_a_package_in_the_bill(bill: dict[str, Any]) -> None:
    whole = [bill["metadata"]["component"], *bill["components"]]  # Weft itself is what the bill is of
    listed = {(normal(one["name"]), one["version"]) for one in whole}
    owned: set[Path] = set()
    for package in metadata.distributions():
        assert (normal(package.name), package.version) in listed, package.name
        owned |= {Path(str(package.locate_file(file))).resolve() for file in package.files or ()}
    installed = {
        path.resolve() for path in SITE.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }  # fmt: skip
    strangers = sorted(str(path.relative_to(SITE)) for path in installed - owned if path.name not in OURS)
    assert not strangers
    assert len(installed) > 1000


def test_vendored_files_are_in_the_bill_with_their_sums(bill: dict[str, Any]) -> None:
    files = {one["name"]: one for one in bill["components"] if one["type"] == "file"}
    vendor = ROOT / "frontend" / "static" / "frontend" / "vendor"
    assert set(files) == {path.name for path in vendor.iterdir() if path.suffix not in (".md", ".txt")}
    assert all(len(one["hashes"][0]["content"]) == 64 and one["purl"].startswith("pkg:npm/") for one in files.values())


def test_the_bill_is_of_the_format_and_the_same_each_time(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    command = [sys.executable, ROOT / "scripts" / "sbom.py", "--no-validate"]  # the first was held against the format
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout) == bill


def test_advisories_are_told_or_it_is_said_that_nothing_was_checked() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from advisories import weaknesses  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    weak = {"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
    assert weaknesses(json.dumps({"dependencies": [weak, {"name": "b", "version": "1", "vulns": []}]})) == [
        "a 1: PYSEC-1, mended in 2"
    ]
    assert weaknesses("") is None
    nowhere = os.environ | dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY"), "http://127.0.0.1:1")
    command = [sys.executable, ROOT / "scripts" / "advisories.py"]
    asked = subprocess.run(command, env=nowhere, capture_output=True, text=True, check=False, timeout=240)
    assert asked.returncode == 0, asked.stdout + asked.stderr
    assert asked.stdout.startswith("advisories: not checked")
