"""How much each workload should have. Pure: a snapshot and metrics in, decisions out."""
