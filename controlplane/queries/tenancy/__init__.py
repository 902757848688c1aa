"""Teams, quotas and usage."""
