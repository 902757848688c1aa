"""What is compiled can be called from several threads from the first call on."""

import subprocess
import sys

from tests.servers import ROOT

# In a process of its own: in this one, other tests have called compiled functions before.
FIRST_CALL = """
from numba.core.typing.typeof import typeof_impl
from scheduler.placement.compiled import compiled

double = compiled(lambda number: 2 * number)
before = len(typeof_impl.registry)
assert double(21) == 42
print(len(typeof_impl.registry) - before)
"""


def test_the_first_call_adds_nothing_to_the_table_of_types_that_calls_in_other_threads_go_through() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_CALL], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "0"
