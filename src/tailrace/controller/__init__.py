"""The controller: the one writer of the metadata log.

Each module decides one kind of command, from values to values; `controller` applies and writes what they decide.
"""
