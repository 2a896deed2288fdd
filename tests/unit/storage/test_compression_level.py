"""A topic with a codec of its own packs by the level that it says."""

from __future__ import annotations

import pytest

from tailrace.config.log import LogConfig
from tailrace.record.builder import BatchBuilder
from tailrace.record.reader import records_of
from tailrace.record.shallow import batches
from tailrace.storage.origin import Origin
from tailrace.storage.validation import ValidationRules
from tailrace.storage.validator import prepare_leader_set

NOW_MS = 1_700_000_000_000


def stored_bytes(settings: dict[str, str]) -> int:
    builder = BatchBuilder()
    values = [b"%d of %d, and some more; " % (n * n % 977, n) for n in range(2000)]
    for value in values:
        builder.append(NOW_MS, None, value)
    rules = ValidationRules.of(LogConfig.of(settings))
    prepared = prepare_leader_set(
        bytearray(builder.build()), first_offset=0, leader_epoch=0, now_ms=NOW_MS, rules=rules, origin=Origin.CLIENT
    )
    assert prepared is not None
    (batch,) = batches(prepared.buffer)
    assert [bytes(record.value or b"") for record in records_of(prepared.buffer, batch)] == values
    return len(prepared.buffer)


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "3", "12"), ("zstd", "-50", "19")])
def test_a_higher_level_packs_tighter(codec: str, low: str, high: str) -> None:
    def packed(level: str) -> int:
        return stored_bytes({"compression.type": codec, f"compression.{codec}.level": level})

    assert packed(high) < packed(low)


def test_the_usual_levels_are_the_codecs_own() -> None:
    assert LogConfig.of({"compression.type": "gzip", "compression.gzip.level": "7"}).compression_level == 7
    for codec in ("gzip", "lz4", "zstd", "snappy", "producer"):
        assert LogConfig.of({"compression.type": codec}).compression_level is None
    assert LogConfig.of({"compression.type": "lz4", "compression.gzip.level": "7"}).compression_level is None
