"""Inner loops as machine code where numba is installed, else as they are written."""

import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

HAS_NUMBA = importlib.util.find_spec("numba") is not None

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile at the first call, exactly as Python would compute it (no fast-math).

    The machine code is kept beside the module, or in the user's cache folder, where one can be written to.
    """
    if not HAS_NUMBA:
        return function
    from scheduler.placement.loaded import numba  # takes a second, and most processes place nothing

    try:
        return numba.njit(function, cache=True)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder for the cache
        return numba.njit(function)  # type: ignore[no-any-return]
