"""The life cycle of a workload: (state, observation or decision) -> (changes, commands). Told in docs/lifecycle.md.

Every rule of it is here and only here. It computes on values and reaches no database, cluster or clock: the services
write what it says to rows (services/workloads/transitions.py), the simulator to memory (simulator/replay/memory.py).
"""
