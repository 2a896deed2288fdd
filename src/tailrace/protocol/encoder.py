"""Compiles the encoder of one version of a message.

The source that comes out is one function that appends pieces of bytes to a list, values of fixed size that stand side
by side as one piece. A payload (record batches, mostly) is appended as the object it is, and its place noted in
`seams`, so that the caller can hand it to the socket without a copy:

    def encode(o0, pieces, seams):
        add = pieces.append
        …
        add(pack_hi(o0.acks, o0.timeout_ms))

A field that the version lacks must have its default unless it is ignorable; that is an `AbsentField`. A value that does
not fit its type fails in `struct`, in `len` or in `encode`: `tailrace.protocol.codec` makes typed errors of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Packing
from typing import Any

from tailrace.protocol import wire
from tailrace.protocol.layout import Version, is_compact, is_nullable, layout_of, version_of
from tailrace.protocol.message import Message, Struct
from tailrace.protocol.schema import PAYLOADS, STRING, UUID, ArrayOf, Field, FieldType, Scalar, Sequence
from tailrace.protocol.source import Source

ZERO_BYTE = "x"  # in `struct`: a byte of zero that takes no value


class EncoderSource:
    def __init__(self, message: type[Message], number: int) -> None:
        self.version: Version = version_of(message, number)
        self.out = Source()
        self._run: list[tuple[str, str]] = []  # letter in `struct`, expression; not yet written
        self._depth = 0
        self._add = "add"
        self.out.names.update(
            uvarints=wire.UVARINTS,
            payload_bytes=wire.payload_bytes,
            absent=wire.absent,
            too_long=wire.too_long,
            no_uuid=wire.no_uuid,
        )
        with self.out.block("def encode(o0, pieces, seams):"):
            self.out.line("add = pieces.append")
            self._struct(message, "o0", "")
            self._flush()

    def _struct(self, struct: type[Struct], variable: str, path: str) -> None:
        layout = layout_of(struct, self.version)
        for f in layout.absent:
            if not f.ignorable:
                with self.out.block(f"if {self._differs(f, f'{variable}.{f.name}')}:"):
                    self.out.line(f"raise absent({path + f.name!r}, {variable}.{f.name})")
        for f in layout.regular:
            self._field(f, f"{variable}.{f.name}", path)
        if layout.tagged:
            self._tagged_fields(layout.tagged, variable, path)
        elif self.version.flexible:
            self._run.append((ZERO_BYTE, ""))

    def _differs(self, f: Field, value: str, *, null_differs: bool = False) -> str:
        """The condition under which a field has another value than its default."""
        if isinstance(f.type, ArrayOf) and f.default is not None:
            return f"{value} is None or {value}" if null_differs else value
        if isinstance(f.type, type):
            default = self.out.name(f"default_{f.type.__name__}", f.type())
            return f"{value} is not None and {value} != {default}"
        return f"{value} is not None" if f.default is None else f"{value} != {f.default!r}"

    def _field(self, f: Field, value: str, path: str) -> None:
        self._value(f.type, value, path + f.name, is_nullable(f, self.version), is_compact(f, self.version))

    def _value(self, field_type: FieldType, value: str, path: str, nullable: bool, compact: bool) -> None:
        if isinstance(field_type, Scalar):
            self._scalar(field_type, value, path)
        elif isinstance(field_type, Sequence):
            with self._unless_null(value, nullable, _null(field_type, compact)):
                self._sequence(field_type, value, path, compact)
        elif isinstance(field_type, ArrayOf):
            with self._unless_null(value, nullable, _null(field_type, self.version.flexible)):
                self._array(field_type, value, path)
        else:
            with self._unless_null(value, nullable, b"\xff"):
                if nullable:
                    self._run.append(("b", "1"))
                self._nested_struct(field_type, value, path)

    @contextmanager
    def _unless_null(self, value: str, nullable: bool, null: bytes) -> Iterator[None]:
        """What is written inside is for a value that is there; a null is `null` on the wire."""
        if not nullable:
            yield
            return
        self._flush()
        with self.out.block(f"if {value} is None:"):
            self.out.line(f"{self._add}({null!r})")
        with self.out.block("else:"):
            yield
            self._flush()

    def _scalar(self, scalar: Scalar, value: str, path: str) -> None:
        if scalar is UUID:  # `struct` would cut or fill it without a word
            with self.out.block(f"if len({value}) != 16:"):
                self.out.line(f"raise no_uuid({path!r}, {value})")
        self._run.append((scalar.code, value))

    def _nested_struct(self, struct: type[Struct], value: str, path: str) -> None:
        self._depth += 1
        variable = f"o{self._depth}"
        self.out.line(f"{variable} = {value}")
        self._struct(struct, variable, f"{path}.")
        self._flush()  # the variable is free for the next struct of this depth
        self._depth -= 1

    def _sequence(self, kind: Sequence, value: str, path: str, compact: bool) -> None:
        if kind is STRING:
            self.out.line(f"s = {value}.encode()")
            self.out.line("n = len(s)")
            with self.out.block(f"if n > {wire.MAX_STRING_BYTES}:"):
                self.out.line(f"raise too_long({path!r}, n)")
        else:
            self.out.line(f"s = {value}")
            self.out.line("n = payload_bytes(s)")
        self._length("h" if kind is STRING else "i", compact)
        if kind in PAYLOADS:
            if self._add != "add":
                raise TypeError(f"{path}: a payload cannot be in a tagged field")
            self.out.line("seams.append(len(pieces))")
        self.out.line(f"{self._add}(s)")

    def _array(self, array: ArrayOf, value: str, path: str) -> None:
        element = array.element
        if isinstance(element, Scalar):
            self._flush()
            if element is UUID:
                with self.out.block(f"for s in {value}:"), self.out.block("if len(s) != 16:"):
                    self.out.line(f"raise no_uuid({path!r}, s)")
            runs = RUN_PACKERS[element.code, self.version.flexible]
            packers = self.out.name(f"pack_run_{element.name}", runs)
            self.out.line(f"n = len({value})")
            self.out.line(f"{self._add}({packers}[n]({'n + 1' if self.version.flexible else 'n'}, *{value}))")
            return
        self.out.line(f"n = len({value})")
        self._length("i", self.version.flexible)
        self._depth += 1
        item = f"o{self._depth}"
        with self.out.block(f"for {item} in {value}:"):
            if isinstance(element, Sequence):
                self._sequence(element, item, f"{path}[]", self.version.flexible)
            else:
                self._struct(element, item, f"{path}[].")
            self._flush()
        self._depth -= 1

    def _length(self, legacy_code: str, compact: bool) -> None:
        """Write the length that is in `n`."""
        if compact:
            self._flush()
            self.out.line(f"{self._add}(uvarints[n + 1])")
        else:
            self._run.append((legacy_code, "n"))
            self._flush()

    def _tagged_fields(self, tagged: tuple[Field, ...], variable: str, path: str) -> None:
        """In most messages no tagged field has a value of its own: one test, one byte of zero."""
        self._flush()
        conditions = [self._is_written(f, f"{variable}.{f.name}") for f in tagged]
        fields = f"tags{self._depth}"
        with self.out.block(f"if {' or '.join(f'({condition})' for condition in conditions)}:"):
            self.out.line(f"{fields} = []")
            for f, condition in zip(tagged, conditions, strict=True):
                with self.out.block(f"if {condition}:"):
                    self._tagged_field(f, fields, f"{variable}.{f.name}", path)
            self.out.line(f"{self._add}(uvarints[len({fields})])")
            self.out.line(f"{self._add}(b''.join({fields}))")
        with self.out.block("else:"):
            self.out.line(f"{self._add}(b'\\0')")

    def _is_written(self, f: Field, value: str) -> str:
        """The condition under which a tagged field is. To Kafka a struct that is not there is none of nulls."""
        nullable = is_nullable(f, self.version)
        return "True" if nullable and isinstance(f.type, type) else self._differs(f, value, null_differs=nullable)

    def _tagged_field(self, f: Field, fields: str, value: str, path: str) -> None:
        pieces, outer = f"pieces{self._depth}", self._add
        self.out.line(f"{pieces} = []")
        self._add = f"{pieces}.append"
        if isinstance(f.type, type) and is_nullable(f, self.version):
            with self._unless_null(value, True, b"\0"):
                self._run.append(("b", "1"))
                self._nested_struct(f.type, value, path + f.name)
        else:
            self._field(f, value, path)
        self._flush()
        self._add = outer
        self.out.line(f"s = b''.join({pieces})")
        self.out.line(f"{fields}.append({wire.UVARINTS[f.tag or 0]!r} + uvarints[len(s)] + s)")

    def _flush(self) -> None:
        """Write the run of fixed-size values that stand side by side as one piece."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        values = ", ".join(value for _, value in self._run if value)
        self._run.clear()
        if not values:
            self.out.line(f"{self._add}({bytes(len(codes))!r})")
        else:
            pack = self.out.name(f"pack_{codes.replace('?', 'o')}", _packer(codes))
            self.out.line(f"{self._add}({pack}({values}))")


def _null(field_type: Sequence | ArrayOf, compact: bool) -> bytes:
    if compact:
        return b"\0"
    return b"\xff\xff" if field_type is STRING else b"\xff\xff\xff\xff"


_PACKERS: dict[str, Any] = {}
RUN_PACKERS = {
    (code, compact): wire.RunPackers(code, compact)
    for code in ("?", "b", "h", "i", "q", "H", "I", "d", "16s")
    for compact in (False, True)
}


def _packer(codes: str) -> Any:
    if codes not in _PACKERS:
        _PACKERS[codes] = Packing(">" + codes).pack
    return _PACKERS[codes]
