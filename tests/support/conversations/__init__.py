"""Requests that build on the responses before them, for any server that speaks Kafka's protocol."""
