"""XXH3 with 64 bits and without a seed: the hash that Kafka keeps of the topics a group is subscribed to.

Plain Python, because what is hashed is a few dozen bytes a topic, once for each change of it. The numbers are those of
the algorithm's specification: a secret of 192 bytes, of which other parts are used for each length.

    0 … 16 · 17 … 128 · 129 … 240 bytes    mixed in pairs of words with the secret
    longer                                 stripes of 64 bytes into eight accumulators, scrambled after every 16
"""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_MASK_32: Final = 0xFFFF_FFFF

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)

_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25

_STRIPE: Final = 64
_SECRET_STEP: Final = 8
_STRIPES_OF_BLOCK: Final = (len(_SECRET) - _STRIPE) // _SECRET_STEP
_BLOCK: Final = _STRIPE * _STRIPES_OF_BLOCK
_LANES: Final = struct.Struct("<8Q")
_SECRET_LANES: Final = [_LANES.unpack_from(_SECRET, at) for at in range(len(_SECRET) - _STRIPE + 1)]


def xxh3_64(data: bytes) -> int:
    """As an unsigned number."""
    length = len(data)
    if length <= 16:
        return _short(data, length)
    if length <= 128:
        return _medium(data, length)
    if length <= 240:
        return _larger(data, length)
    return _long(data, length)


def _read32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _read64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _fold(a: int, b: int) -> int:
    product = a * b
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _PRIME_MX1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _short(data: bytes, length: int) -> int:
    if length > 8:
        low = _read64(data, 0) ^ _read64(_SECRET, 24) ^ _read64(_SECRET, 32)
        high = _read64(data, length - 8) ^ _read64(_SECRET, 40) ^ _read64(_SECRET, 48)
        return _avalanche((length + _swapped(low) + high + _fold(low, high)) & _MASK)
    if length >= 4:
        word = (_read32(data, length - 4) + (_read32(data, 0) << 32)) & _MASK
        value = word ^ _read64(_SECRET, 8) ^ _read64(_SECRET, 16)
        value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
        value = value * _PRIME_MX2 & _MASK
        value ^= (value >> 35) + length
        value = value * _PRIME_MX2 & _MASK
        return value ^ value >> 28
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[-1] | length << 8
        return _avalanche_64(combined ^ _read32(_SECRET, 0) ^ _read32(_SECRET, 4))
    return _avalanche_64(_read64(_SECRET, 56) ^ _read64(_SECRET, 64))


def _mix16(data: bytes, at: int, secret_at: int) -> int:
    return _fold(
        _read64(data, at) ^ _read64(_SECRET, secret_at), _read64(data, at + 8) ^ _read64(_SECRET, secret_at + 8)
    )


def _medium(data: bytes, length: int) -> int:
    value = length * _PRIME64_1
    for pair in range((length - 1) // 32, -1, -1):
        value += _mix16(data, 16 * pair, 32 * pair) + _mix16(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(value & _MASK)


def _larger(data: bytes, length: int) -> int:
    value = length * _PRIME64_1
    for part in range(8):
        value += _mix16(data, 16 * part, 16 * part)
    value = _avalanche(value & _MASK)
    for part in range(8, length // 16):
        value += _mix16(data, 16 * part, 16 * (part - 8) + 3)
    value += _mix16(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _long(data: bytes, length: int) -> int:
    lanes = [
        _PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3, _PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1,
    ]  # fmt: skip
    blocks = (length - 1) // _BLOCK
    for block in range(blocks):
        for stripe in range(_STRIPES_OF_BLOCK):
            _accumulate(lanes, data, block * _BLOCK + stripe * _STRIPE, stripe * _SECRET_STEP)
        secret = _SECRET_LANES[len(_SECRET) - _STRIPE]
        for i in range(8):
            lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ secret[i]) * _PRIME32_1 & _MASK
    for stripe in range((length - 1 - blocks * _BLOCK) // _STRIPE):
        _accumulate(lanes, data, blocks * _BLOCK + stripe * _STRIPE, stripe * _SECRET_STEP)
    _accumulate(lanes, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    value = length * _PRIME64_1
    for i in range(4):
        at = 11 + 16 * i
        value += _fold(lanes[2 * i] ^ _read64(_SECRET, at), lanes[2 * i + 1] ^ _read64(_SECRET, at + 8))
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    words = _LANES.unpack_from(data, at)
    secret = _SECRET_LANES[secret_at]
    for i in range(8):
        keyed = words[i] ^ secret[i]
        lanes[i] = (lanes[i] + (keyed & _MASK_32) * (keyed >> 32)) & _MASK
        lanes[i ^ 1] = (lanes[i ^ 1] + words[i]) & _MASK
