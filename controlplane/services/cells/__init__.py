"""Which cell a workload is in, what each has of the quotas, and what becomes of all when the cells change."""
