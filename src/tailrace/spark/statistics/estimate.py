"""From a sample to the topic: what codecs would save and compaction would gain.

Where the sample is all there is, nothing is estimated. Else, of all batches together are known: their bytes, and the
sizes of records that go and of those that stay (`tally.Records`). From the sample comes how the bytes that are left of
a batch depend on these three, and by how far it has more or less of them than its share; by that much its sum of what
is left is set right (the general regression estimator).
"""

from __future__ import annotations

import numpy as np

from tailrace.record.compression import CODEC_NAMES
from tailrace.spark.statistics.job import Found
from tailrace.spark.statistics.key_bucket import Left
from tailrace.spark.statistics.tally import PLAIN, STORED, Cleanable, Tally
from tailrace.spark.statistics.topic_stats import CodecTrial, CodecTrials, Compacted, CompactionGain
from tailrace.spark.statistics.trials import NEW, OLD, Sieved, Trials


def is_exact(tally: Tally, trials: Trials) -> bool:
    return tally.is_all_sampled and not trials.failed and trials.batches == tally.sampled_batches


def codec_trials(tally: Tally, trials: Trials, stored: int) -> CodecTrials:
    """What is no batch of data, was aborted or cannot be read is counted as it is stored."""
    plain = int(tally.codecs[:, PLAIN].sum())
    fixed = stored - int(tally.codecs[:, STORED].sum())
    exact = is_exact(tally, trials)
    found = []
    for name in CODEC_NAMES if trials.batches else ():
        packed = trials.codecs[name]
        estimated = packed.bytes if exact else round(packed.weighed_bytes / trials.weighed_plain_bytes * plain)
        found.append(
            CodecTrial(
                codec=name,
                sampled_bytes=packed.bytes,
                estimated_bytes=fixed + estimated,
                saved_bytes=stored - fixed - estimated,
                pack_ns_per_byte=packed.pack_ns / trials.plain_bytes,
                unpack_ns_per_byte=packed.unpack_ns / trials.plain_bytes,
            )
        )
    return CodecTrials(trials.batches, trials.stored_bytes, tuple(found))


def compaction_gain(found: Found, stored: int, *, has_closed: bool) -> CompactionGain:
    tally, trials, keys = found.tally, found.trials, found.keys
    exact = is_exact(tally, trials)
    whole = _compacted(tally, tally.whole, keys.whole, trials.whole, stored, exact)
    closed = _compacted(tally, tally.closed, keys.closed, trials.closed, stored, exact) if has_closed else None
    return CompactionGain(
        whole=whole,
        closed=closed,
        tombstones=keys.whole.tombstones,
        tombstone_payload_bytes=keys.whole.tombstone_sizes,
        keyless_records=tally.whole.keyless,
        sampled_batches=trials.batches,
        is_exact=exact,
    )


def _compacted(tally: Tally, looked_at: Cleanable, left: Left, sieved: Sieved, stored: int, exact: bool) -> Compacted:
    left_bytes = sieved.left_bytes if exact else _left_bytes(looked_at, left, sieved)
    gained = looked_at.bytes - left_bytes + looked_at.lost_bytes
    removed = looked_at.records - left.records
    return Compacted(
        records=tally.whole.records - removed,
        removed_records=removed,
        stored_bytes=stored - gained,
        gained_bytes=gained,
        share=gained / stored if stored else 0.0,
    )


def _left_bytes(looked_at: Cleanable, left: Left, sieved: Sieved) -> int:
    share = looked_at.bytes * left.sizes / looked_at.sizes if looked_at.sizes else 0.0
    if not sieved.sums[OLD]:
        return round(share)
    known = np.array([looked_at.bytes, looked_at.sizes - left.sizes, left.sizes], np.float64)
    slopes = np.linalg.pinv(sieved.products[:NEW, :NEW]) @ sieved.products[:NEW, NEW]
    estimated = float(sieved.sums[NEW] + slopes @ (known - sieved.sums[:NEW]))
    # Few records that stay take more than their share: each its batch's header, and they are packed less well.
    least = share if 2 * left.sizes < looked_at.sizes else 0.0
    return round(max(estimated, least))
