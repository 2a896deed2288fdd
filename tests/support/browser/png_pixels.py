"""Pixels of a PNG as a browser writes it: 8 bits, RGB or RGBA, not interlaced. By the standard library alone."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from pathlib import Path

Color = tuple[int, int, int]
SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {2: 3, 6: 4}


class Pixels:
    """Rows of bytes, `channels` for each pixel."""

    def __init__(self, width: int, height: int, channels: int, rows: list[bytes]) -> None:
        self.width = width
        self.height = height
        self.channels = channels
        self.rows = rows

    def colors(self) -> Counter[Color]:
        """How many pixels each color has."""
        found: Counter[Color] = Counter()
        step = self.channels
        for row in self.rows:
            found.update(zip(row[0::step], row[1::step], row[2::step], strict=True))
        return found

    def part(self, left: int, top: int, right: int, bottom: int) -> Pixels:
        step = self.channels
        rows = [row[left * step : right * step] for row in self.rows[top:bottom]]
        return Pixels(right - left, len(rows), step, rows)

    def columns_of(self, color: Color) -> set[int]:
        """Which columns have a pixel of this color."""
        step = self.channels
        return {
            x
            for row in self.rows
            for x, each in enumerate(zip(row[0::step], row[1::step], row[2::step], strict=True))
            if each == color
        }


def read(path: Path) -> Pixels:
    content = path.read_bytes()
    assert content.startswith(SIGNATURE), f"{path} is no PNG"
    at, header, packed = len(SIGNATURE), b"", b""
    while at < len(content):
        length, kind = struct.unpack_from(">I4s", content, at)
        body = content[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", header)
    assert (depth, interlaced) == (8, 0)
    channels = CHANNELS[color]
    return Pixels(width, height, channels, _rows(zlib.decompress(packed), width * channels, height, channels))


def _rows(raw: bytes, stride: int, height: int, channels: int) -> list[bytes]:
    rows: list[bytes] = []
    before = bytes(stride)
    for y in range(height):
        start = y * (stride + 1)
        before = _unfiltered(raw[start], raw[start + 1 : start + 1 + stride], before, channels)
        rows.append(before)
    return rows


def _unfiltered(kind: int, line: bytes, above: bytes, step: int) -> bytes:
    """What the PNG specification calls Reconstruct."""
    if kind == 0:
        return line
    if kind == 2:
        return bytes((a + b) & 255 for a, b in zip(line, above, strict=True))
    out = bytearray(line)
    for at in range(len(out)):
        left = out[at - step] if at >= step else 0
        if kind == 1:
            out[at] = (out[at] + left) & 255
        elif kind == 3:
            out[at] = (out[at] + (left + above[at]) // 2) & 255
        else:
            corner = above[at - step] if at >= step else 0
            out[at] = (out[at] + _paeth(left, above[at], corner)) & 255
    return bytes(out)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    off_left, off_above, off_corner = abs(guess - left), abs(guess - above), abs(guess - corner)
    if off_left <= off_above and off_left <= off_corner:
        return left
    return above if off_above <= off_corner else corner
