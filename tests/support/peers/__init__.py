"""Other nodes, as scripts of a test."""
