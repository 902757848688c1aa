"""Cells: what each part of a cluster has of the quotas, and to which one a workload goes."""
