"""The group coordinator: groups of all kinds and their offsets, on `__consumer_offsets`."""
