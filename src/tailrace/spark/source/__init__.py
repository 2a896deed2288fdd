"""The log as Spark reads it."""
