"""Requests and responses: one module an API, declared in the words of `tailrace.protocol.schema`."""
