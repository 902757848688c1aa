"""`make sbom`: what an installation consists of, as CycloneDX 1.6 JSON on standard output.

The Python packages of the environment that runs this, as cyclonedx-py finds them, and the vendored browser assets.
Options go on to cyclonedx-py: with `--no-validate` it leaves out the check against the format, nearly all of its time.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENDORED = ROOT / "frontend" / "static" / "frontend" / "vendor" / "README.md"
ROW = re.compile(r"^\| (\S+) \| (\S+) \| (\S+) \| (\S+) .*?\| ([0-9a-f]{64}) \|$", re.MULTILINE)


def main() -> None:
    """Print the document."""
    tool = Path(sys.executable).with_name("cyclonedx-py")
    command = [str(tool), "environment", "--output-reproducible", "--sv", "1.6", "--of", "JSON", "--pyproject",
               str(ROOT / "pyproject.toml"), *sys.argv[1:], sys.executable]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(made.stdout)
    document["components"] = [*document["components"], *vendored()]
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True) + "\n")


def vendored() -> list[dict[str, Any]]:
    """The files under vendor/, from the table that a test compares with them."""
    return [
        {
            "bom-ref": f"vendor/{file}",
            "type": "file",
            "name": file,
            "version": version,
            "purl": f"pkg:npm/{package.replace('@', '%40')}@{version}",
            "licenses": [{"license": {"id": licence}}],
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for file, package, version, licence, digest in ROW.findall(VENDORED.read_text())
    ]


if __name__ == "__main__":
    main()
