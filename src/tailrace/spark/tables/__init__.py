"""Topics as tables: Parquet, Delta and Iceberg tables that follow a topic, exactly once.

    table.py, job/      the driver: what a batch is, when it is committed, upkeep, what is shown
    tasks/              what executors do: records into rows into files, upserts, compaction
    values/             what is in a record's value: bytes, text, JSON, Avro, Protobuf
    store.py            what a table is to all of these
    parquet/ delta/ iceberg/    the three kinds of it

Exactly once rests on one rule. A table's newest commit holds, beside the files, the offsets up to which it has the
topic; nothing else says how far it is. A batch is planned on a loaded snapshot, executors write files that nobody
sees, and `Snapshot.commit` makes them the table, with the new offsets, only if that snapshot is still the newest. Who
is refused loads and plans again. So a killed, repeated or second driver leaves files without a name, never rows.

Beside the table are up to two more, in the same format, with the offsets of their own in each commit:

    <name>_dead_letters     records that have no row, with the reason
    <name>_hidden           upserts: what decides about keys and is not to be seen (tombstones, the newest record of
                            a key in a partition where another partition's goes before it)

They are committed before the table, and skip or merge what they have already. One that is ahead tells where the batch
ended that was under way: the next one ends there too.
"""
