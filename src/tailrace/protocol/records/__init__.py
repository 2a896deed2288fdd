"""Messages that are written to logs: metadata records of `__cluster_metadata`, and values of control records."""
