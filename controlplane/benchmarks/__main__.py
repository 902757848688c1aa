"""`python -m controlplane.benchmarks`: what `make figures` runs."""

import sys

from controlplane.benchmarks.harness.figures import main

if __name__ == "__main__":
    sys.exit(main())
