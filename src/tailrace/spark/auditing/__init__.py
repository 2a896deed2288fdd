"""An audit of any amount of log: every byte that brokers wrote is read again and held against every rule.

    paths ─ job/listing ─ job/planning ─┬─ task/  pieces of segments ─ job/stitching ─ job/confirming ─┬─ findings
                                        └─ shuffles/  keys, and replicas by offset ────────────────────┘

    finding, rules    what is said, and which rules there are
    figures           what is counted on the way
    pieces            what goes to executors and comes back
    task/             one piece of a segment: blocks of batches, past every rule that needs no other piece
    job/              the driver: which folders and files there are, waves of tasks, the seams between pieces, memory of
                      what was audited before
    shuffles/         what cannot be known from one place: superseded keys, replicas of one partition

docs/audit.md is for users. Reads only: nothing in a log directory is ever changed.
"""
