"""Delta tables, by the package deltalake: executors write data files, the driver makes the commit. No jar, no JVM.

    store.py            all of it as a `Store`
    snapshot.py         a table as one commit left it, and the next commit
    offsets.py          how far a version has the topic
    log.py              the commits in `_delta_log`, as they are on disk
    types.py            columns of Arrow and of Delta
    statistics.py       what a commit tells about a file
    upkeep.py           versions that are too old, and files that nothing needs
    lake.py             the package deltalake, and its errors as ours

The offsets are transactions of the table (`txn` actions), one for each partition, named `tailrace:<partition>`: part of
the commit that adds the rows, and of each checkpoint after it. What the table is of is in its configuration
(`tailrace.about`). Beside them the commit tells people what it did: operation, offsets, facts.
"""
