"""A broker for tests (`tailrace.Broker`) and pytest fixtures around it; docs/testing.md shows both."""
