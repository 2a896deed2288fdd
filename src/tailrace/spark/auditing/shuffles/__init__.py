"""What no task can know alone: records of one key, and the replicas of a partition.

records          records of many folders as rows for Spark: folder, key, offset, value
naming           places and keys in words
superseded       keys that compaction should have left one record of
replicas         which stretches of which replicas are compared, and how: by batches, or by the newest value of a key
replica_batches  one stretch of two replicas, byte by byte
batch_stream     the batches of one replica from an offset on, across its segments
replica_keys     the newest value of each key, replica against replica
"""
