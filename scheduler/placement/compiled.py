"""Inner loops as machine code where numba is installed, else as they are written."""

import importlib.util
import threading
from collections.abc import Callable
from typing import Any, TypeVar

HAS_NUMBA = importlib.util.find_spec("numba") is not None

_loading = threading.Lock()

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, exactly as Python would compute it (no fast-math).

    The machine code is kept beside the module, or in the user's cache folder, where one can be written to.
    """
    if not HAS_NUMBA:
        return function
    import numba  # takes a second, and most processes place nothing
    from numba.core.registry import cpu_target

    with _loading:
        # Else numba loads its last parts at the first call of any function, and adds to the table of types while a call
        # in another thread goes through it: "dictionary changed size during iteration".
        cpu_target.target_context.refresh()
    try:
        return numba.njit(function, cache=True)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder for the cache
        return numba.njit(function)  # type: ignore[no-any-return]
