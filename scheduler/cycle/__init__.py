"""A round from top to bottom, the order of claimants, and scheduling equivalence."""
