"""Group, offset and transaction coordinators on a simulated machine."""
