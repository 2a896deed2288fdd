"""Every log of a broker, in all its data directories."""
