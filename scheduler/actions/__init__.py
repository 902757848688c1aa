"""What a round can do for one claimant: one verb a module, none imports another."""
