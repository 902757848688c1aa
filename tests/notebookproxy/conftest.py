"""People who are signed in at Weft's pages."""

from tests.frontend.conftest import visit

__all__ = ["visit"]
