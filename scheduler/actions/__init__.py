"""What a round can do for a claimant, one verb each; they do not know each other."""
