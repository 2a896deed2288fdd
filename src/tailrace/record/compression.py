"""The five codecs of record batches and legacy message sets, in the framings that Kafka's clients read and write.

    0 none
    1 gzip    RFC 1952. Read: any number of members; bytes behind them that are no member are ignored.
    2 snappy  Written: snappy-java's stream, that is `82 'SNAPPY' 00`, version 1 and compatible version 1 (int32 each),
              then blocks of 32 KiB before compression, each behind its compressed length (int32). Read: that, several
              such streams in a row, up to 3 bytes behind them ignored; or one bare snappy block.
    3 lz4     One LZ4 frame of independent blocks of 64 KiB. Read: blocks of any size, but no dependent ones, which
              Java clients cannot read; bytes behind the frame are ignored.
    4 zstd    RFC 8878, window up to 128 MiB. Read: any number of frames and skippable frames and nothing else.

What is ignored behind the end is what Kafka's own streams ignore, for a batch that Kafka takes must be taken here.

Nothing is allocated because the data says so: output is made in blocks, and a stated length is believed only as far as
the codec could pack it into the bytes at hand. Data that cannot be decoded, or is cut off, is a CorruptMessageError.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Generator, Iterator
from importlib import import_module
from struct import Struct
from typing import Any, Final

from tailrace.env.files import Buffer
from tailrace.model.errors import CorruptMessageError, MessageTooLargeError, UnsupportedCompressionError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

BLOCK_BYTES: Final = 1 << 20

_FEED_BYTES: Final = 1 << 18  # decompressors copy the input they have not come to, so they get it in pieces

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 1 << 15
_SNAPPY_RATIO: Final = 32  # three bytes of snappy make at most 64

_GZIP_START: Final = b"\x1f\x8b\x08"
_GZIP_SMALLEST: Final = 18
_GZIP_BEST_OF_ISAL: Final = 3

_LZ4_HEADER_BYTES: Final = 7
_LZ4_FLAGS_AT: Final = 4
_LZ4_FLAGS_MASK: Final = 0b1110_0011
_LZ4_FLAGS: Final = 0b0110_0000  # version 1, independent blocks, no dictionary

_ZSTD_WINDOW_BYTES: Final = 1 << 27
_ZSTD_BLOCK_BYTES: Final = 1 << 17
_ZSTD_CHECKSUM_BIT: Final = 0x04
_ZSTD_LONGEST_HEADER: Final = 18

_INT: Final = Struct(">i")
_LE_UINT: Final = Struct("<I")


class _Library:
    """A module that is imported when it is first used: together they take 2 MB of a process that needs none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value


cramjam: Final[Any] = _Library("cramjam")
igzip: Final[Any] = _Library("isal.igzip")
igzip_lib: Final[Any] = _Library("isal.igzip_lib")
lz4_frame: Final[Any] = _Library("lz4.frame")
zstandard: Final[Any] = _Library("zstandard")

_of_thread = threading.local()


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`level` is on the codec's own scale: gzip 1–9, lz4 1–17, zstd −131072–22; None is its default."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return _gzip(data, level)
    if codec == SNAPPY:
        return _snappy(data)
    if codec == LZ4:
        _check_level("lz4", level, 1, 17)
        compressed: bytes = lz4_frame.compress(
            data,
            compression_level=level or 0,
            block_size=lz4_frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return compressed
    if codec == ZSTD:
        _check_level("zstd", level, -131072, 22)
        packed: bytes = zstandard.ZstdCompressor(level=3 if level is None else level).compress(data)
        return packed
    raise _unsupported(codec)


def decompress(codec: int, data: Buffer, max_bytes: int) -> bytes:
    """All of it, in memory; more than `max_bytes` is a MessageTooLargeError."""
    pieces = []
    total = 0
    for piece in blocks(codec, data):
        total += len(piece)
        if total > max_bytes:
            raise MessageTooLargeError(
                f"{len(data)} bytes of {CODEC_NAMES[codec]} decompress to more than {max_bytes} bytes"
            )
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def blocks(codec: int, data: Buffer, block_bytes: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The decompressed data in blocks of 1 to `block_bytes` bytes, each made when it is asked for.

    `block_bytes` below 128 KiB, the block of zstd, is taken as that. A block of snappy cannot be made in part, so up to
    32 times the size of `data` is held for it.
    """
    block_bytes = max(block_bytes, _ZSTD_BLOCK_BYTES)
    view = memoryview(data)
    if codec == NONE:
        return (bytes(view[at : at + block_bytes]) for at in range(0, len(view), block_bytes))
    if codec == GZIP:
        return _gzip_blocks(view, block_bytes)
    if codec == SNAPPY:
        return _snappy_blocks(view, block_bytes)
    if codec == LZ4:
        return _lz4_blocks(view, block_bytes)
    if codec == ZSTD:
        return _zstd_blocks(view, block_bytes)
    raise _unsupported(codec)


def _unsupported(codec: int) -> UnsupportedCompressionError:
    return UnsupportedCompressionError(f"there is no codec {codec}")


def _corrupt(codec: int, reason: object) -> CorruptMessageError:
    return CorruptMessageError(f"{CODEC_NAMES[codec]} data cannot be decompressed: {reason}")


def _check_level(name: str, level: int | None, least: int, greatest: int) -> None:
    if level is not None and not least <= level <= greatest:
        raise UnsupportedCompressionError(f"{name} has levels {least} to {greatest}, not {level}")


def _stream_blocks(
    codec: int, decompressor: Any, data: memoryview, position: int, block_bytes: int
) -> Generator[bytes, None, int]:
    """Blocks of the stream at `position`; returns where it ends. The decompressors of gzip and lz4 have the interface
    of the standard library's bz2."""
    room = min(block_bytes, max(4096, 16 * len(data)))  # what most data fits at once
    while not decompressor.eof:
        piece: Buffer = b""
        if decompressor.needs_input:
            piece = data[position : position + _FEED_BYTES]
            if not piece:
                raise _corrupt(codec, "it is cut off")
            position += len(piece)
        try:
            block = decompressor.decompress(piece, room)
        except (igzip_lib.IsalError, RuntimeError) as error:
            raise _corrupt(codec, error) from error
        if block:
            yield block
    return position - len(decompressor.unused_data or b"")


def _gzip(data: Buffer, level: int | None) -> bytes:
    _check_level("gzip", level, 1, 9)
    if level is None or level <= _GZIP_BEST_OF_ISAL:
        compressed: bytes = igzip.compress(data, 2 if level is None else level, mtime=0)
        return compressed
    packer = zlib.compressobj(level, wbits=31)
    return packer.compress(data) + packer.flush()


def _gzip_blocks(data: memoryview, block_bytes: int) -> Iterator[bytes]:
    position = 0
    while position == 0 or _is_gzip_member(data[position:]):
        member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        position = yield from _stream_blocks(GZIP, member, data, position, block_bytes)


def _is_gzip_member(rest: memoryview) -> bool:
    return len(rest) > _GZIP_SMALLEST and bytes(rest[: len(_GZIP_START)]) == _GZIP_START


def _lz4_blocks(data: memoryview, block_bytes: int) -> Iterator[bytes]:
    if len(data) < _LZ4_HEADER_BYTES:
        raise _corrupt(LZ4, "it is cut off")
    if data[_LZ4_FLAGS_AT] & _LZ4_FLAGS_MASK != _LZ4_FLAGS:
        raise _corrupt(LZ4, f"frame flags {data[_LZ4_FLAGS_AT]:08b} are not those of independent blocks")
    yield from _stream_blocks(LZ4, lz4_frame.LZ4FrameDecompressor(), data, 0, block_bytes)


def _snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        packed = bytes(cramjam.snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        parts += (_INT.pack(len(packed)), packed)
    return b"".join(parts)


def _snappy_blocks(data: memoryview, block_bytes: int) -> Iterator[bytes]:
    """Small snappy blocks are put together, for a caller has a cost per block; great ones are cut."""
    gathered: list[bytes] = []
    gathered_bytes = 0
    for packed in _snappy_chunks(data):
        length = _snappy_length(packed)
        if gathered_bytes + length > block_bytes:
            yield from _cut(b"".join(gathered), block_bytes)
            gathered, gathered_bytes = [], 0
        try:
            gathered.append(bytes(cramjam.snappy.decompress_raw(packed)))
        except cramjam.DecompressionError as error:
            raise _corrupt(SNAPPY, error) from error
        gathered_bytes += length
    yield from _cut(b"".join(gathered), block_bytes)


def _cut(data: bytes, block_bytes: int) -> Iterator[bytes]:
    if 0 < len(data) <= block_bytes:
        yield data
        return
    for at in range(0, len(data), block_bytes):
        yield data[at : at + block_bytes]


def _snappy_chunks(data: memoryview) -> Iterator[memoryview]:
    """The compressed blocks: those of snappy-java's streams, or the data itself when it is no such stream.

    The version numbers behind the magic are not looked at: some writers have them in the wrong byte order.
    """
    if not _is_xerial(data, 0):
        yield data
        return
    position = len(_XERIAL_HEADER)
    while len(data) - position >= _INT.size:
        if _is_xerial(data, position):
            position += len(_XERIAL_HEADER)
            continue
        (length,) = _INT.unpack_from(data, position)
        position += _INT.size
        if not 0 <= length <= len(data) - position:
            raise _corrupt(SNAPPY, f"a block states {length} bytes, {len(data) - position} are left")
        yield data[position : position + length]
        position += length


def _is_xerial(data: memoryview, position: int) -> bool:
    return bytes(data[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC


def _snappy_length(packed: memoryview) -> int:
    """The stated length, which snappy allocates before it decompresses."""
    try:
        length: int = cramjam.snappy.decompress_raw_len(packed)
    except cramjam.DecompressionError as error:
        raise _corrupt(SNAPPY, error) from error
    if length > _SNAPPY_RATIO * len(packed):
        raise _corrupt(SNAPPY, f"a block of {len(packed)} bytes states {length} bytes decompressed")
    return length


def _zstd_blocks(data: memoryview, block_bytes: int) -> Iterator[bytes]:
    whole = _zstd_at_once(data, block_bytes)
    if whole is None:
        yield from _zstd_frames(data, block_bytes)
    elif whole:
        yield whole


def _zstd_at_once(data: memoryview, max_bytes: int) -> bytes | None:
    """The data of a single small frame, or None when it is not such or is corrupt."""
    try:
        frame = zstandard.get_frame_parameters(data)
        if frame.window_size > _ZSTD_WINDOW_BYTES:
            return None
        if frame.content_size > max_bytes and frame.content_size != zstandard.CONTENTSIZE_UNKNOWN:
            return None
        try:
            decompressor = _of_thread.zstd
        except AttributeError:
            decompressor = _of_thread.zstd = zstandard.ZstdDecompressor()
        whole: bytes = decompressor.decompress(data, max_output_size=max_bytes, allow_extra_data=False)
    except zstandard.ZstdError:
        return None
    return whole


def _zstd_frames(data: memoryview, block_bytes: int) -> Iterator[bytes]:
    """The library has no decompressor that both limits its output and tells a frame that is cut off, so we find the
    blocks of a frame and give it no more of them at a time than can make `block_bytes`."""
    # A decompressor works on one frame at a time: this one is ours alone, for our caller may pause for long.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    position = 0
    while position == 0 or position < len(data):
        try:
            if _is_skippable(data, position):
                position = _behind(data, position, 8 + _LE_UINT.unpack_from(data, position + 4)[0])
                continue
            frame = decompressor.decompressobj()
            for group_end in _zstd_groups(data, position, block_bytes):
                block = frame.decompress(data[position:group_end])
                position = group_end
                if block:
                    yield block
        except zstandard.ZstdError as error:
            raise _corrupt(ZSTD, error) from error
        if not frame.eof or frame.unused_data:
            raise _corrupt(ZSTD, "its frame and its blocks disagree on their end")


def _is_skippable(data: memoryview, position: int) -> bool:
    _behind(data, position, 8)
    start: int = _LE_UINT.unpack_from(data, position)[0]
    return start & 0xFFFFFFF0 == 0x184D2A50


def _behind(data: memoryview, position: int, size: int) -> int:
    if size > len(data) - position:
        raise _corrupt(ZSTD, "it is cut off")
    return position + size


def _zstd_groups(data: memoryview, position: int, block_bytes: int) -> Iterator[int]:
    """Ends of groups of blocks of the frame at `position`; the last is the end of the frame.

    A block's header is 3 bytes, little-endian: bit 0 for the last block, 2 bits of type (0 raw, 1 one byte repeated,
    2 compressed), 21 bits of size: the bytes that follow, or for type 1 the times its byte is repeated.
    """
    checksum_bytes = 4 if data[position + 4] & _ZSTD_CHECKSUM_BIT else 0
    header = zstandard.frame_header_size(data[position : position + _ZSTD_LONGEST_HEADER])
    position = _behind(data, position, header)
    may_make = 0
    last = 0
    while not last:
        body = _behind(data, position, 3)
        size = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        last, kind, size = size & 1, size >> 1 & 3, size >> 3
        makes = _ZSTD_BLOCK_BYTES if kind == 2 else size
        if kind == 3 or makes > _ZSTD_BLOCK_BYTES:
            raise _corrupt(ZSTD, f"a block of type {kind} and {size} bytes")
        if may_make + makes > block_bytes:
            yield position
            may_make = 0
        may_make += makes
        position = _behind(data, body, 1 if kind == 1 else size)
    yield _behind(data, position, checksum_bytes)
