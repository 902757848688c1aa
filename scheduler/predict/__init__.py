"""How long work runs and when what waits will start."""
