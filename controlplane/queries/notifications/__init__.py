"""Event types, subscriptions and notices."""
