"""Why a workload waits, its place in the queue, and what would start it."""
