"""Compaction of one log: of all records with the same key the last one stays.

    planner          what of a log can be cleaned, which log first, which segments together (pure)
    offset_map       the greatest offset of each key
    chunks           segments read chunk by chunk through a bounded buffer
    rows             records of one batch walked by a kernel, piece by piece
    runs             plain batches, many at once, all in a kernel
    transactions     which batches belong to aborted transactions, which markers are of use no more
    map_builder      pass 1: the dirty part of a log into an offset map
    verdict          what becomes of a batch as a whole
    sieve            which records of a batch stay, and the batch without the others
    legacy_sieve     the same for message sets of format v0 and v1
    kept             what stays of a chunk
    output           the `.cleaned` segments
    rewriter         pass 2: a group of segments into new ones
    log_compaction   both passes over one log, and the swap

A record is obsolete when a later one has its key. Nothing beyond the last stable offset is looked at, so that every
transaction met is decided.
"""
