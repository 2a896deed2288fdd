from __future__ import annotations

import warnings

from hypothesis import given
from hypothesis import strategies as st

from tailrace.client.partitioner import Sticky, murmur2, partition_of_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its own files
    from kafka.partitioner.default import murmur2 as their_murmur2


def test_values_that_kafkas_own_tests_name() -> None:
    # The Java values are signed.
    named = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    assert {key: murmur2(key) - (murmur2(key) >> 31 << 32) for key in named} == named


@given(st.binary(max_size=300))
def test_any_key_hashes_as_in_kafka_python(key: bytes) -> None:
    assert murmur2(key) == their_murmur2(key) & 0xFFFF_FFFF


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_a_key_has_one_partition_of_those_there_are(key: bytes, partitions: int) -> None:
    assert partition_of_key(key, partitions) == (their_murmur2(key) & 0x7FFF_FFFF) % partitions


def test_records_without_a_key_stay_until_told_to_move_on() -> None:
    asked: list[list[int]] = []

    def first(available: object) -> int:
        asked.append(list(available))  # type: ignore[call-overload]
        return asked[-1][0]

    sticky = Sticky(first)
    assert [sticky.partition(lambda: [4, 5, 6]) for _ in range(3)] == [4, 4, 4]
    sticky.move_on(lambda: [4, 5, 6])
    assert sticky.partition(lambda: [4]) == 5
    assert asked == [[4, 5, 6], [5, 6]]


def test_one_partition_is_all_there_is() -> None:
    sticky = Sticky()
    assert sticky.partition(lambda: [0]) == 0
    sticky.move_on(lambda: [0])
    assert sticky.partition(lambda: [0]) == 0
