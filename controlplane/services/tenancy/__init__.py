"""Teams, quotas, budgets, recent usage."""
