"""Controllers and metadata quorums."""
