"""Notices, subscriptions, webhooks and their deliveries."""
