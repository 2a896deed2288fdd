"""Small programs for the machines of a simulated universe."""
