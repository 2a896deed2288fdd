"""Which tests a change can affect, found from the sources alone. `tools/changed_tests.py` is the command.

facts.py reads one Python file: its units, such as functions and methods, and what each of them mentions. scopes.py
resolves names to files and units. graph.py connects units and computes which tests reach which unit. rules.py has the
tables for what is not visible in imports. changes.py compares two versions of the tree.
"""
