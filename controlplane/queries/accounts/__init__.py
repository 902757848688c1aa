"""Rights, accounts, memberships, tokens."""
