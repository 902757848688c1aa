"""What of the cluster each cell's decider sees, and how cells stand."""
