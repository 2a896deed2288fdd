from __future__ import annotations

from pathlib import Path
from struct import pack, pack_into, unpack_from

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from tailrace.env import Mode
from tailrace.env.real.files import RealFiles
from tailrace.model.errors import CorruptSnapshotError
from tailrace.storage import producer_snapshot
from tailrace.storage.producer_entry import BatchMetadata, ProducerStateEntry

IN_TRANSACTION = ProducerStateEntry(7, 3, -1, 1700000000000, 100, (BatchMetadata(9, 109, 9, 1700000000000),))
ACROSS_THE_WRAP = ProducerStateEntry(2**62, 0, -1, 1700000000001, None, (BatchMetadata(3, 121, 11, 1700000000001),))
MARKER_ONLY = ProducerStateEntry(9, 1, 12, 1700000000002)

# What ProducerStateManager.takeSnapshot of Apache Kafka 4.3.1 wrote for these three.
KAFKAS = bytes.fromhex(
    "000121fa41a500000003"
    "400000000000000000000000000300000000000000790000000b0000018bcfe56801ffffffffffffffffffffffff"
    "0000000000000007000300000009000000000000006d000000090000018bcfe56800ffffffff0000000000000064"
    "00000000000000090001ffffffffffffffffffffffff000000000000018bcfe568020000000cffffffffffffffff"
)


def int_of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def entries(draw: st.DrawFn) -> list[ProducerStateEntry]:
    """Of each producer at most one batch, as that is what a snapshot keeps."""
    made = []
    transactions = iter(draw(st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=8)))
    for producer_id in draw(st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=12)):
        timestamp = draw(int_of(64))
        last_offset = st.integers(0, 2**63 - 1)
        batch = st.builds(BatchMetadata, int_of(32), last_offset, int_of(32), st.just(timestamp))
        batches = tuple(draw(st.lists(batch, max_size=1)))
        first_offset = next(transactions, None) if draw(st.booleans()) else None
        made.append(
            ProducerStateEntry(producer_id, draw(int_of(16)), draw(int_of(32)), timestamp, first_offset, batches)
        )
    return made


@pytest.mark.spec("LS-30")
def test_bytes_are_those_of_kafka() -> None:
    assert producer_snapshot.encode([ACROSS_THE_WRAP, IN_TRANSACTION, MARKER_ONLY]) == KAFKAS
    assert producer_snapshot.decode(KAFKAS) == [ACROSS_THE_WRAP, IN_TRANSACTION, MARKER_ONLY]


@pytest.mark.spec("LS-30")
def test_every_field_is_at_its_position() -> None:
    entry = ProducerStateEntry(
        0x0101010101010101, 0x0202, 0x07070707, 0x0606060606060606, 0x0808080808080808,
        (BatchMetadata(0x03030303, 0x0404040404040404, 0x05050505, 0x0606060606060606),),
    )  # fmt: skip
    data = producer_snapshot.encode([MARKER_ONLY, entry])
    assert len(data) == 10 + 2 * 46
    assert unpack_from(">h", data, 0) == (1,)
    assert unpack_from(">I", data, 2) == (crc32c(data[6:]),)
    assert unpack_from(">i", data, 6) == (2,)
    start = 10 + 46
    fields = [
        ("q", 0, 1),
        ("h", 8, 2),
        ("i", 10, 3),
        ("q", 14, 4),
        ("i", 22, 5),
        ("q", 26, 6),
        ("i", 34, 7),
        ("q", 38, 8),
    ]
    for kind, position, byte in fields:
        value = data[start + position : start + position + {"q": 8, "i": 4, "h": 2}[kind]]
        assert value == bytes([byte]) * len(value)


def test_only_the_last_batch_is_kept() -> None:
    entry = ProducerStateEntry(7, 0, -1, 6, None, (BatchMetadata(0, 100, 0, 5), BatchMetadata(4, 104, 3, 6)))
    assert producer_snapshot.decode(producer_snapshot.encode([entry])) == [
        entry._replace(batches=(BatchMetadata(4, 104, 3, 6),))
    ]


def test_no_producers_make_a_file_of_ten_bytes() -> None:
    data = producer_snapshot.encode([])
    assert len(data) == 10
    assert producer_snapshot.decode(data) == []


@pytest.mark.spec("LS-30")
@given(entries())
def test_what_is_written_is_read(given_entries: list[ProducerStateEntry]) -> None:
    assert producer_snapshot.decode(producer_snapshot.encode(given_entries)) == given_entries


@pytest.mark.spec("LS-30")
@pytest.mark.parametrize("size", [*range(11), 11, 55, 56, 57, len(KAFKAS) - 1])
def test_truncated_snapshot_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptSnapshotError):
        producer_snapshot.decode(KAFKAS[:size])


@pytest.mark.spec("LS-30")
def test_any_flipped_bit_is_found() -> None:
    for bit in range(len(KAFKAS) * 8):
        data = bytearray(KAFKAS)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshotError):
            producer_snapshot.decode(data)


def with_crc(data: bytes) -> bytes:
    sealed = bytearray(data)
    pack_into(">I", sealed, 2, crc32c(sealed[6:]))
    return bytes(sealed)


@pytest.mark.spec("LS-30")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "0 bytes"),
        (bytes(len(KAFKAS)), "version 0"),
        (with_crc(b"\x00\x02" + KAFKAS[2:]), "version 2"),
        (with_crc(KAFKAS + b"\x00"), "149 bytes states 3 entries"),
        (with_crc(KAFKAS[:6] + pack(">i", 2) + KAFKAS[10:]), "states 2 entries"),
        (with_crc(KAFKAS[:6] + pack(">i", 2**31 - 1) + KAFKAS[10:]), "states 2147483647 entries"),
        (with_crc(KAFKAS[:6] + pack(">i", -1)), "states -1 entries"),
        (producer_snapshot.encode([MARKER_ONLY, MARKER_ONLY]), "producer id 9 twice"),
        (producer_snapshot.encode([MARKER_ONLY._replace(producer_id=-1)]), "producer id -1"),
        (
            producer_snapshot.encode([IN_TRANSACTION, IN_TRANSACTION._replace(producer_id=8)]),
            "first offset of a transaction 100 twice",
        ),
    ],
)
def test_contradictions_are_corrupt_even_with_a_right_crc(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=problem):
        producer_snapshot.decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_entries_or_corrupt(data: bytes) -> None:
    for candidate in (data, with_crc(b"\x00\x01" + data) if len(data) >= 8 else data):
        try:
            found = producer_snapshot.decode(candidate)
        except CorruptSnapshotError:
            continue
        assert len(found) == (len(candidate) - 10) // 46


def test_file_is_written_anew_and_read(tmp_path: Path) -> None:
    files, path = RealFiles(), f"{tmp_path}/00000000000000000123.snapshot"
    producer_snapshot.write(files, path, producer_snapshot.encode([IN_TRANSACTION, MARKER_ONLY]), sync=True)
    producer_snapshot.write(files, path, producer_snapshot.encode([MARKER_ONLY]), sync=False)
    assert files.size(path) == 56
    assert producer_snapshot.read(files, path) == [MARKER_ONLY]


@pytest.mark.spec("LS-30")
def test_corrupt_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000123.snapshot"
    path.write_bytes(KAFKAS[:-1])
    with pytest.raises(CorruptSnapshotError, match=r"00000000000000000123\.snapshot: snapshot of 147 bytes"):
        producer_snapshot.read(RealFiles(), str(path))


def test_file_grown_huge_is_not_read_into_memory(tmp_path: Path) -> None:
    files, path = RealFiles(), f"{tmp_path}/00000000000000000123.snapshot"
    producer_snapshot.write(files, path, producer_snapshot.encode([MARKER_ONLY]), sync=False)
    file = files.open(path, Mode.WRITE)
    file.truncate(1 << 40)  # sparse
    file.close()
    with pytest.raises(CorruptSnapshotError, match=f"{1 << 40} bytes states 1 entries"):
        producer_snapshot.read(files, path)
