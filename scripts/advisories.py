"""Known weaknesses of the pinned packages, by pip-audit; part of `make nightly`.

Exit 1 and the list if there are any. Where no advisory service answers nothing is known, which is said and is no
failure: machines without a way out run the nightly tests as well.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FILES = ("requirements/dev.txt", "requirements/uv.txt")
TIMEOUT_SECONDS = 15


def main() -> int:
    """Ask, tell, and return the exit code."""
    tool = Path(sys.executable).with_name("pip-audit")
    files = [part for name in FILES for part in ("--requirement", str(ROOT / name))]
    command = [str(tool), *files, "--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json",
               "--timeout", str(TIMEOUT_SECONDS)]  # fmt: skip
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    found = weaknesses(asked.stdout)
    if found is None:
        reason = asked.stderr.strip().splitlines()[-1:] or ["no answer"]
        sys.stdout.write(f"advisories: not checked, no advisory service answers ({reason[0][:200]})\n")
        return 0
    for line in found:
        sys.stdout.write(f"advisories: {line}\n")
    sys.stdout.write(f"advisories: {len(found)} known weaknesses\n")
    return 1 if found else 0


def weaknesses(report: str) -> list[str] | None:
    """Each weakness that a report of pip-audit names, as a line; None if it is no report."""
    try:
        packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return [
        f"{package['name']} {package['version']}: {one['id']}, mended in {', '.join(one['fix_versions']) or 'none yet'}"
        for package in packages
        for one in package.get("vulns", ())
    ]


if __name__ == "__main__":
    sys.exit(main())
