"""What one GPU can hold: devices, shares of them, and how shares are packed."""
