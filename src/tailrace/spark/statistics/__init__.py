"""What is in a topic: keys, sizes, rates, producers, and what compaction, a codec or retention would change.

    stats, topic_stats      the call, and what it gives
    plan                    the driver: which offsets, in which pieces, what is sampled of each
    job                     the Spark jobs: a shuffle that pieces are read into, and what takes from it
    piece_task, watching    a piece in a task: rows by Arrow batches, and the batches they were in
    tally, sizes, headers               what adds up
    timeline, age_line                  the same over time
    keys, key_bucket, producers         what a shuffle brings together
    sample, trials, sifting             batches that are packed again: by each codec, and as compaction would
    estimate, retention, assembling     from there to what is told
    report, page_parts      the page for a browser

Everything but the bytes of batches that are packed again is counted, not estimated. Reads only.
"""
