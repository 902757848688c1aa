"""What the loops write: decisions, observations, rounds, leases, heartbeats."""
