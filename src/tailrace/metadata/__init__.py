"""The cluster's state as values, made by replaying the records of the metadata log."""
