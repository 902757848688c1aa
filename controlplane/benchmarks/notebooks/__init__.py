"""How many notebook users one GPU serves, with GPUs on demand and with what stock clusters do."""
