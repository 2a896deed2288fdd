"""Records of a topic by key, by moment or by any condition, straight from segments or brokers.

find ─ planning ─┬─ task       keys and moments: filtered where they are read, only what is found goes to the driver
                 └─ predicate  conditions in SQL: Spark's own, what is said of offsets and times is pushed down
                      └─ states    of what was found: committed, aborted, or in a transaction that is open

found       what is given back
wish        what is looked for, and which of it is kept where there is too much
"""
