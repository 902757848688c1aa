"""What all benchmarks share: figures, where they are stored, processes."""
