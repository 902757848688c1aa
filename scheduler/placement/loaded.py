"""numba, loaded whole, by the one thread that imports this module first while others wait.

By itself numba loads its last parts at the first call of any function, and adds to its table of types while a call in
another thread goes through that table: "dictionary changed size during iteration".
"""

import numba
from numba.core.registry import cpu_target

__all__ = ["numba"]

cpu_target.target_context.refresh()
