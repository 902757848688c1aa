"""The proxy through which a browser reaches a notebook's server: docs/notebooks.md#the-proxy."""
