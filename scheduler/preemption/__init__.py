"""Which work leaves for other work: candidates, what each costs, the smallest set, elastic gangs."""
