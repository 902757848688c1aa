"""How a process of ours runs: logs, threads, liveness, hints, the interpreter."""
