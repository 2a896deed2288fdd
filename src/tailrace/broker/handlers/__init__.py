"""One module an API, each with `handle(node, context, request, reply)`; `broker/dispatch.py` finds them by name."""
