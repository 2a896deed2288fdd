"""Spark on pieces, topics and directories, with a JVM and without."""
