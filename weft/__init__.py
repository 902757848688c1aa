"""`from weft import Client`: the Python SDK (re-exported from controlplane.client)."""
