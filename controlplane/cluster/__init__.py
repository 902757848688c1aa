"""The only door to machines: two ports, and the adapters behind them."""
