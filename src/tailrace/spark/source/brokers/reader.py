"""The rows of a piece of a partition, fetched from its leader.

While the rows of one answer are decoded, and Spark takes them, the next answer is on its way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.brokers.gaps import Gaps
from tailrace.spark.source.brokers.links import link_for
from tailrace.spark.source.brokers.piece_fetcher import PieceFetcher
from tailrace.spark.source.brokers.whole_batches import next_offset_behind
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


def read_brokers(
    options: SourceOptions, piece: OffsetRange, decoder: Decoder, loss: LossPolicy
) -> Iterator[pa.RecordBatch]:
    """What the decoder has left over at the end is for the caller to get (`Decoder.rest`)."""
    if piece.size == 0:
        return
    with link_for(options, timeout_s=options.poll_timeout_ms / 1000) as link:
        gaps = Gaps(link.cluster, piece.partition, loss)
        fetcher = PieceFetcher(link, options, piece, gaps, loss)
        fetcher.begin(decoder.times.first_ms if decoder.times.first_ms > 0 else None)
        while not fetcher.is_done:
            fetched = fetcher.next()
            if fetched is None:
                continue
            if fetched.offset > decoder.next_offset:
                decoder.next_offset = fetched.offset  # what is between is lost, as was told, or too old
            size_bytes = len(fetched.records)
            fetcher.ask(next_offset_behind(fetched.records, fetched.offset), size_bytes)
            decoder.forget_aborted()  # an answer names every transaction that reaches into it
            yield from decoder.decode(fetched.records, fetched.aborted)
            gaps.judge(gap for gap in decoder.gaps if not decoder.goes_with_damage(*gap))
            decoder.gaps.clear()
            fetcher.advance(decoder.next_offset, size_bytes)
