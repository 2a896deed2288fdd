"""What a task tells of damage, over readers that the test scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tailrace.model.errors import CorruptMessageError
from tailrace.model.ids import TopicPartition
from tailrace.spark.options.source import SourceOptions
from tailrace.spark.options.subscription import Topics
from tailrace.spark.source import piece_reader
from tailrace.spark.source.columns import Columns
from tailrace.spark.source.decoding import Decoder
from tailrace.spark.source.piece_reader import Piece, read_piece
from tailrace.spark.source.ranges import OffsetRange

PIECE = Piece(OffsetRange(TopicPartition("t", 0), 0, 100))


@pytest.fixture(autouse=True)
def damaged_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(options: Any, offsets: Any, decoder: Decoder) -> Iterator[Any]:
        decoder.damaged(10, 20, "its CRC is wrong")
        decoder.damaged(50, 55, "its CRC is wrong")
        yield from ()

    monkeypatch.setattr(piece_reader, "_batches", read)


def rows(*, skip_corrupt: bool) -> list[Any]:
    options = SourceOptions(Topics(("t",)), path="/p", skip_corrupt=skip_corrupt)
    return list(read_piece(options, Columns(), PIECE))


def test_damage_is_named_and_so_is_the_way_around_it() -> None:
    with pytest.raises(CorruptMessageError, match=r"t-0: offsets 10 to 19 .*\(with skipCorrupt=true"):
        rows(skip_corrupt=False)


def test_what_is_skipped_is_named_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    assert rows(skip_corrupt=True) == []
    assert "skipped offsets 50 to 54" in caplog.text
    assert "t-0 [0, 100): skipped 15 damaged offsets, in 2 places" in caplog.text
