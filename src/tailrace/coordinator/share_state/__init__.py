"""The share coordinator: what share groups have done with the records of their partitions."""
