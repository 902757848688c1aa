"""What a round is about, as frozen values: nodes, teams, quotas, workloads, decisions, settings."""
