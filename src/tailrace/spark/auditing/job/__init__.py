"""The driver of an audit."""
