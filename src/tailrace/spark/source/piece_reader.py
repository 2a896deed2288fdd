"""What a task does with its piece of a partition: rows as Arrow batches, from wherever the options say."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from tailrace.model.errors import CorruptMessageError
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.loss import LossPolicy
from tailrace.spark.source.ranges import ALL_TIMES, OffsetRange, TimeRange

if TYPE_CHECKING:
    import pyarrow as pa

_log: Final = logging.getLogger("tailrace.spark")
_SKIPPING: Final = "with skipCorrupt=true the query goes on behind it"


class Piece(InputPartition):
    """One task's work. Spark pickles it."""

    def __init__(self, offsets: OffsetRange, times: TimeRange = ALL_TIMES) -> None:
        super().__init__(str(offsets.partition))
        self.offsets = offsets
        self.times = times

    def __repr__(self) -> str:
        return f"{self.offsets.partition} [{self.offsets.start}, {self.offsets.end})"


def read_piece(
    options: SourceOptions, columns: Columns, piece: InputPartition, *, new_decoder: Callable[..., Decoder] = Decoder
) -> Iterator[pa.RecordBatch]:
    """Nothing for the empty partition that Spark makes up where a plan has none.

    `new_decoder` is for who wants to see batches beside their rows. It is called as the class Decoder is.
    """
    if not isinstance(piece, Piece):
        return
    offsets = piece.offsets

    skipped: list[int] = []

    def corrupt(first: int, behind: int, why: str) -> None:
        skipped.append(behind - first)
        _log.warning("%s: skipped offsets %d to %d: %s", offsets.partition, first, behind - 1, why)

    decoder = new_decoder(
        columns,
        offsets,
        times=piece.times,
        skips_corrupt=options.skip_corrupt,
        on_corrupt=corrupt if options.skip_corrupt else None,
    )
    try:
        yield from _batches(options, offsets, decoder)
    except CorruptMessageError as error:
        raise CorruptMessageError(f"{error} ({_SKIPPING})") from error
    yield from decoder.rest()
    if skipped:
        text = "%r: skipped %d damaged offsets, in %d places"
        _log.warning(text, piece, sum(skipped), len(skipped))


def _batches(options: SourceOptions, offsets: OffsetRange, decoder: Decoder) -> Iterator[pa.RecordBatch]:
    loss = LossPolicy(options.fail_on_data_loss)
    if options.path is not None:
        from tailrace.spark.source.files.reader import read_files

        return read_files(options, offsets, decoder, loss)
    from tailrace.spark.source.brokers.reader import read_brokers

    return read_brokers(options, offsets, decoder, loss)
