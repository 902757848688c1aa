"""What else a running training could have inside its budgets, and which of it is worth a try."""
