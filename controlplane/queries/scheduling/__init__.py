"""Snapshots, rounds, the cluster, what-ifs, and what is learnt of past work."""
