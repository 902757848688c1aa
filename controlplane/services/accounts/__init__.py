"""People, service accounts, memberships, tokens, signing in."""
