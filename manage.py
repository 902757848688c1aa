#!/usr/bin/env python
"""Django's entry, and the operators' command line."""

import os
import sys


def main() -> None:
    """Run a management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("controlplane.benchmarks", "controlplane.testbed")):
            raise
        sys.exit(
            f"manage.py {sys.argv[1]} needs a checkout of Weft's repository: an installed server has no benchmarks "
            "and no test servers. Clone the repository and run it there."
        )


if __name__ == "__main__":
    main()
