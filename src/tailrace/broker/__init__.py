"""The broker: connections, dispatch, one handler a request kind, and the node that owns everything behind them."""
