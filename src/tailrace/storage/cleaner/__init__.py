"""Compaction of all logs of a broker: who cleans what, and when nobody may.

    states         which partitions are being cleaned, and which must not be
    selection      the dirtiest log; one owner's turn at a time
    worker         clean, delete, look again; sleep when there is nothing to do
    throttle       all workers together no faster than so many bytes a second
    uncleanable    partitions whose clean failed, why, and when it is tried again
    checkpoints    up to where each log is clean, durably
    cleaner        the pool of workers, and what the log manager asks of it

How one log is cleaned is in `compaction`.
"""
