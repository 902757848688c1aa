"""The production rules in memory, with faults: long random runs, and the invariants after each event."""
