"""Every codec both ways with foreign software, and hostile data: typed errors, bounded memory."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tracemalloc
from types import SimpleNamespace

import cramjam
import kafka.codec
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from suite.seeds import examples
from support.records.raw_records import batch, record
from tailrace.model.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionError
from tailrace.record.batch import BatchHeader
from tailrace.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, blocks, compress, decompress

CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]
PACKING = CODECS[1:]
MAX = 1 << 30
TEXT = b"".join(b"%020d" % number for number in random.Random(1).choices(range(10**9), k=200_000))  # 4 MB
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


@pytest.fixture(autouse=True)
def snappy_for_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python has its own framing, and takes bare snappy blocks from a library that is not installed."""
    library = SimpleNamespace(
        compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
        decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
    )
    monkeypatch.setattr(kafka.codec, "snappy", library)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100, 32768, 32769, 65536, len(TEXT)])
def test_round_trip(codec: int, size: int) -> None:
    data = TEXT[:size]
    packed = compress(codec, data)
    assert decompress(codec, packed, size) == data
    assert compress(codec, memoryview(bytearray(data))) == packed
    assert decompress(codec, memoryview(bytearray(packed)), size) == data
    pieces = list(blocks(codec, packed))
    assert b"".join(pieces) == data
    assert all(0 < len(piece) <= 1 << 20 for piece in pieces)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [3, 2000])
@pytest.mark.spec("RF-04")
def test_kafka_python_reads_what_we_compress(codec: int, count: int) -> None:
    parts = [(b"key-%d" % index, TEXT[index * 50 : index * 50 + 100]) for index in range(count)]
    data, _ = batch(b"".join(record(index, *part) for index, part in enumerate(parts)), count, codec)
    theirs = DefaultRecordBatch(data)
    assert theirs.validate_crc()
    assert theirs.compression_type == codec
    assert [(found.key, found.value) for found in theirs] == parts


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [3, 2000])
@pytest.mark.spec("RF-04")
def test_we_decompress_what_kafka_python_wrote(codec: int, count: int) -> None:
    plain = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    packed = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for builder in (plain, packed):
        for index in range(count):
            builder.append(index, 1000 + index, b"key", TEXT[index * 9 : index * 9 + 100], [("h", b"v" * 30)])
    data = bytes(packed.build())
    assert BatchHeader.at(data).codec == codec
    assert decompress(codec, data[61:], MAX) == plain.build()[61:]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.spec("RF-04")
def test_we_decompress_what_kafka_wrote(kafka_batches: dict[str, bytes], codec: str) -> None:
    data = kafka_batches[f"v2-{codec}"]
    assert decompress(BatchHeader.at(data).codec, data[61:], MAX) == kafka_batches["v2-none"][61:]


@pytest.mark.spec("RF-04")
def test_framings_are_those_of_kafka() -> None:
    """Java reads lz4 blocks only when they are independent, and snappy in chunks behind this header."""
    packed = compress(SNAPPY, TEXT[:40000])
    assert packed[:16] == XERIAL
    (length,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + length])) == TEXT[:32768]
    frame = lz4.frame.get_frame_info(compress(LZ4, TEXT))
    assert not frame["block_linked"]
    assert frame["block_size"] == 65536
    assert gzip.decompress(compress(GZIP, TEXT)) == TEXT


@pytest.mark.parametrize(
    ("codec", "levels"), [(GZIP, (1, 3, 4, 9)), (LZ4, (1, 9, 17)), (ZSTD, (-5, 1, 19)), (SNAPPY, (1,)), (NONE, (1,))]
)
def test_levels(codec: int, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT[:100000], level), MAX) == TEXT[:100000]


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 0), (GZIP, 10), (LZ4, 18), (LZ4, 0), (ZSTD, 23), (ZSTD, -131073)])
def test_levels_out_of_range_are_refused(codec: int, level: int) -> None:
    with pytest.raises(UnsupportedCompressionError, match=str(level)):
        compress(codec, b"data", level)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_unsupported(codec: int) -> None:
    for attempt in (compress, blocks):
        with pytest.raises(UnsupportedCompressionError):
            attempt(codec, b"data")
    with pytest.raises(UnsupportedCompressionError):
        decompress(codec, b"data", 100)


@pytest.mark.parametrize("codec", CODECS)
def test_output_is_limited(codec: int) -> None:
    packed = compress(codec, TEXT[:5000])
    assert len(decompress(codec, packed, 5000)) == 5000
    with pytest.raises(MessageTooLargeError, match="more than 4999 bytes"):
        decompress(codec, packed, 4999)


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
@pytest.mark.spec("RF-11")
def test_cut_off_data_is_corrupt(codec: int) -> None:
    packed = compress(codec, TEXT[:300])
    for end in range(len(packed)):
        with pytest.raises(CorruptMessageError):
            decompress(codec, packed[:end], MAX)
    great = compress(codec, TEXT)
    with pytest.raises(CorruptMessageError):
        decompress(codec, great[:-5], MAX)


def test_cut_off_snappy_is_corrupt_or_ends_at_a_block() -> None:
    packed = compress(SNAPPY, TEXT[:70000])
    for end in range(0, len(packed), 97):
        try:
            assert len(decompress(SNAPPY, packed[:end], MAX)) % 32768 == 0
        except CorruptMessageError:
            continue


@pytest.mark.parametrize("codec", PACKING)
@given(data=st.data())
@settings(max_examples=examples(200))
@pytest.mark.spec("RF-11")
def test_damaged_data_raises_typed_errors_only(codec: int, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, TEXT[: data.draw(st.sampled_from([0, 5, 300, 40000]))]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, min(len(packed) - 1, 80)))] = data.draw(st.integers(0, 255))
    try:
        decompress(codec, packed, MAX)
    except (CorruptMessageError, MessageTooLargeError):
        return


@pytest.mark.parametrize("codec", PACKING)
@given(garbage=st.binary(max_size=60))
@settings(max_examples=examples(200))
def test_garbage_raises_typed_errors_only(codec: int, garbage: bytes) -> None:
    for data in (garbage, compress(codec, b"")[:7] + garbage):
        try:
            decompress(codec, data, MAX)
        except (CorruptMessageError, MessageTooLargeError):
            continue


def test_gzip_members_follow_each_other_and_what_is_no_member_is_ignored() -> None:
    two = compress(GZIP, b"first ") + gzip.compress(b"second")
    assert decompress(GZIP, two, MAX) == b"first second"
    assert decompress(GZIP, two + b"no member, and more than 18 bytes", MAX) == b"first second"
    with pytest.raises(CorruptMessageError):
        decompress(GZIP, two + two[:-1], MAX)
    assert decompress(GZIP, compress(GZIP, b"") * 10000 + two, MAX) == b"first second"


def test_gzip_checksum_is_verified() -> None:
    packed = bytearray(compress(GZIP, TEXT[:1000]))
    packed[-6] ^= 1
    with pytest.raises(CorruptMessageError):
        decompress(GZIP, packed, MAX)


def test_what_follows_an_lz4_frame_is_ignored() -> None:
    assert decompress(LZ4, compress(LZ4, b"data") + b"anything", MAX) == b"data"


def test_lz4_with_dependent_blocks_is_refused() -> None:
    """Kafka refuses it, and so would its consumers."""
    with pytest.raises(CorruptMessageError, match="independent"):
        decompress(LZ4, lz4.frame.compress(TEXT, block_linked=True), MAX)


@pytest.mark.parametrize("options", [{"store_size": True}, {"content_checksum": True}, {"block_checksum": True}])
def test_lz4_frames_of_other_writers(options: dict[str, bool]) -> None:
    for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB):
        packed = lz4.frame.compress(TEXT, block_linked=False, block_size=size, **options)
        assert decompress(LZ4, packed, MAX) == TEXT


def test_bare_snappy_blocks_are_read() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), MAX) == TEXT


def test_snappy_streams_follow_each_other() -> None:
    streams = compress(SNAPPY, b"first ") + compress(SNAPPY, b"second")
    assert decompress(SNAPPY, streams + b"...", MAX) == b"first second"
    wrong_order = XERIAL[:8] + b"\x01\x00\x00\x00\x01\x00\x00\x00"
    assert decompress(SNAPPY, wrong_order + streams[16:], MAX) == b"first second"


@pytest.mark.parametrize("length", [-1, 1 << 30, 9])
def test_snappy_block_lengths_are_checked(length: int) -> None:
    with pytest.raises(CorruptMessageError, match="states"):
        decompress(SNAPPY, XERIAL + struct.pack(">i", length) + b"12345678", MAX)


def zstd_of(data: bytes, **options: object) -> bytes:
    """As Java's streams write it: without the size of its content."""
    packer = zstandard.ZstdCompressor(**options).compressobj()  # type: ignore[arg-type]
    return packer.compress(data) + packer.flush()


def test_zstd_frames_follow_each_other() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    frames = zstd_of(TEXT) + skippable + compress(ZSTD, b"second") + zstd_of(b"third", write_checksum=True) + skippable
    assert decompress(ZSTD, frames, MAX) == TEXT + b"secondthird"
    assert decompress(ZSTD, skippable, MAX) == b""
    for wrong in (b"garbage behind", b"x", skippable[:-1]):
        with pytest.raises(CorruptMessageError):
            decompress(ZSTD, frames + wrong, MAX)


@pytest.mark.parametrize("level", [-5, 1, 3, 19])
def test_zstd_without_content_size_and_with_flushes(level: int) -> None:
    assert decompress(ZSTD, zstd_of(TEXT, level=level, write_checksum=True), MAX) == TEXT
    packer = zstandard.ZstdCompressor(level=level).compressobj()
    pieces = [TEXT[at : at + 999] for at in range(0, len(TEXT) // 4, 999)]
    flushed = b"".join(packer.compress(piece) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for piece in pieces)
    assert decompress(ZSTD, flushed + packer.flush(), MAX) == b"".join(pieces)
    noise = random.Random(level).randbytes(3 << 20)
    assert decompress(ZSTD, zstd_of(noise, level=level), MAX) == noise


def test_zstd_checksum_is_verified() -> None:
    for data in (TEXT, TEXT[:500]):
        packed = bytearray(zstd_of(data, write_checksum=True))
        packed[-1] ^= 1
        with pytest.raises(CorruptMessageError):
            decompress(ZSTD, packed, MAX)


def test_zstd_windows_up_to_128_mib() -> None:
    def with_window(log: int) -> bytes:
        parameters = zstandard.ZstdCompressionParameters(window_log=log)
        return zstd_of(b"data" * 1000, compression_params=parameters)

    assert decompress(ZSTD, with_window(27), MAX) == b"data" * 1000
    with pytest.raises(CorruptMessageError, match="too much memory"):
        decompress(ZSTD, with_window(28), MAX)


@pytest.mark.parametrize("codec", PACKING)
def test_two_readers_do_not_disturb_each_other(codec: int) -> None:
    one, other = compress(codec, TEXT), compress(codec, TEXT[::-1])
    pairs = list(zip(blocks(codec, one), blocks(codec, other), strict=True))
    assert len(pairs) > 2
    assert b"".join(first for first, _ in pairs) == TEXT
    assert b"".join(second for _, second in pairs) == TEXT[::-1]


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.spec("RF-11")
def test_a_bomb_comes_in_small_blocks(codec: int) -> None:
    bomb = bytes(128 << 20)
    packed = compress(codec, bomb)
    size = len(bomb)
    del bomb
    tracemalloc.start()
    try:
        total = 0
        for block in blocks(codec, packed):
            assert len(block) <= 1 << 20
            total += len(block)
        assert total == size
        with pytest.raises(MessageTooLargeError):
            decompress(codec, packed, 2 << 20)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_stated_sizes_are_not_believed() -> None:
    """Each says that 1 GiB will follow. It does not, and nothing of that size is allocated."""
    gibibyte = 1 << 30
    sizes = io.BytesIO()
    zstandard.ZstdCompressor().copy_stream(io.BytesIO(bytes(2 << 20)), sizes, size=2 << 20)
    stated = bytearray(sizes.getvalue())
    at = stated.index(struct.pack("<I", 2 << 20))
    stated[at : at + 4] = struct.pack("<I", gibibyte)
    bare = bytearray(cramjam.snappy.compress_raw(b"12345678" * 100))
    bare[:2] = b"\x80\x80\x80\x80\x04"
    sized = lz4.frame.compress(b"1" * 100, block_linked=False, store_size=True)
    lies: list[tuple[int, bytes | bytearray]] = [
        (ZSTD, stated),
        (SNAPPY, bare),
        (SNAPPY, XERIAL + struct.pack(">i", len(bare)) + bare),
        # Byte 14 is a checksum of the header: one of these is right.
        *((LZ4, sized[:6] + struct.pack("<QB", gibibyte, checksum) + sized[15:]) for checksum in range(256)),
    ]
    tracemalloc.start()
    try:
        for codec, packed in lies:
            with pytest.raises(CorruptMessageError):
                decompress(codec, packed, MAX)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
