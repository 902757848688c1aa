"""Workloads as pages, REST and the CLI show them."""
