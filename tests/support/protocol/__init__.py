"""Random protocol messages."""
