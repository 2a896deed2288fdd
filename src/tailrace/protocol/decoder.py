"""Compiles the decoder of one version of a message.

The source that comes out is one function without calls to others of its kind: structs are nested loops, values of fixed
size that stand side by side are taken by one `unpack_from`, with the length of what follows them:

    def decode(buffer, position, elements):
        end = len(buffer)
        o0 = new(DeleteTopicsRequest)
        …
        (n,) = unpack_i(buffer, position)

No length is believed: bytes must be there before they are sliced, an array must fit into the bytes that are left when
each element takes its least, and all arrays together have at most `elements` elements, because an object takes many
times the bytes that announce it. What ends too early is an `IndexError` or `struct.error`, everything else a
`MalformedField` or `UnicodeDecodeError`: `tailrace.protocol.codec` makes typed errors of them.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct as Packing
from typing import Any

from tailrace.protocol import wire
from tailrace.protocol.layout import Version, is_compact, is_nullable, layout_of, least_bytes, version_of
from tailrace.protocol.message import Message, Struct
from tailrace.protocol.schema import BYTES, STRING, ArrayOf, Field, FieldType, Scalar, Sequence
from tailrace.protocol.source import Source


class DecoderSource:
    def __init__(self, message: type[Message], number: int) -> None:
        self.version: Version = version_of(message, number)
        self.out = Source()
        self._run: list[tuple[str, str]] = []  # letter in `struct`, target; not yet written
        self._depth = 0
        errors = "" if message.TEXT_ERRORS == "strict" else f'"utf-8", "{message.TEXT_ERRORS}"'
        self._taken: dict[FieldType, str] = {
            STRING: f"buffer[position:e].tobytes().decode({errors})",
            BYTES: "buffer[position:e].tobytes()",
        }
        self.out.names.update(
            new=object.__new__,
            uvarint=wire.uvarint,
            skip_tags=wire.skip_tags,
            refuse_length=wire.refuse_length,
            refuse_count=wire.refuse_count,
            refuse_tag=wire.refuse_tag,
            refuse_tags=wire.refuse_tags,
        )
        with self.out.block("def decode(buffer, position, elements):"):
            self.out.line("end = len(buffer)")
            self._struct(message, "o0", "")
            self._flush()
            self.out.line("return o0, position")

    def _struct(self, struct: type[Struct], variable: str, path: str) -> None:
        """Make an object and read its fields; the last run may still be unwritten."""
        layout = layout_of(struct, self.version)
        self.out.line(f"{variable} = new({self.out.name(struct.__name__, struct)})")
        for f in (*layout.absent, *layout.tagged):
            self._default(f, f"{variable}.{f.name}")
        for f in layout.regular:
            self._field(f, f"{variable}.{f.name}", path)
        if self.version.flexible:
            self._tagged_fields(layout.tagged, variable, path)

    def _default(self, f: Field, target: str) -> None:
        make = f.default_factory()
        if make is list:
            self.out.line(f"{target} = []")
        elif make is not None:
            self.out.line(f"{target} = {self.out.name(make.__name__, make)}()")
        else:
            self.out.line(f"{target} = {f.default!r}")

    def _field(self, f: Field, target: str, path: str) -> None:
        self._value(f.type, target, path + f.name, is_nullable(f, self.version), is_compact(f, self.version))

    def _value(self, field_type: FieldType, target: str, path: str, nullable: bool, compact: bool) -> None:
        if isinstance(field_type, Scalar):
            self._run.append((field_type.code, target))
        elif isinstance(field_type, Sequence):
            self._sequence(field_type, target, path, nullable, compact)
        elif isinstance(field_type, ArrayOf):
            self._array(field_type, target, path, nullable)
        elif nullable:
            self._nullable_struct(field_type, target, path)
        else:
            self._nested_struct(field_type, target, path)

    def _nested_struct(self, struct: type[Struct], target: str, path: str) -> None:
        self._depth += 1
        variable = f"o{self._depth}"
        self._struct(struct, variable, f"{path}.")
        self._flush()  # the variable is free for the next struct of this depth
        self.out.line(f"{target} = {variable}")
        self._depth -= 1

    def _nullable_struct(self, struct: type[Struct], target: str, path: str, null: int = -1) -> None:
        self._run.append(("b", "n"))
        self._flush()
        with self.out.block(f"if n <= {null}:"):
            self.out.line(f"{target} = None")
        with self.out.block("else:"):
            self._nested_struct(struct, target, path)

    def _sequence(self, kind: Sequence, target: str, path: str, nullable: bool, compact: bool) -> None:
        self._length("h" if kind is STRING else "i", compact)
        limit = f" or n > {wire.MAX_STRING_BYTES}" if kind is STRING and compact else ""

        def take() -> None:
            self.out.line("e = position + n")
            with self.out.block(f"if n < 0 or e > end{limit}:"):
                self.out.line(f"raise refuse_length({path!r}, n, end - position)")
            self.out.line(f"{target} = {self._taken.get(kind, 'buffer[position:e]')}")
            self.out.line("position = e")

        self._unless_null(target, nullable, take)

    def _array(self, array: ArrayOf, target: str, path: str, nullable: bool) -> None:
        self._length("i", self.version.flexible)
        element = array.element
        least = max(1, least_bytes(element, self.version))

        def take() -> None:
            with self.out.block(f"if n < 0 or n > elements or n * {least} > end - position:"):
                self.out.line(f"raise refuse_count({path!r}, n, {least}, end - position, elements)")
            self.out.line("elements -= n")
            if isinstance(element, Scalar):
                runs = self.out.name(f"unpack_run_{element.name}", RUN_UNPACKERS[element.code])
                self.out.line(f"{target} = list({runs}[n](buffer, position)) if n else []")
                self.out.line(f"position += n * {element.size_bytes}")
            else:
                self._elements(element, target, path)

        self._unless_null(target, nullable, take)

    def _elements(self, element: Sequence | type[Struct], target: str, path: str) -> None:
        self._depth += 1
        items, item = f"a{self._depth}", f"o{self._depth}"
        self.out.line(f"{target} = {items} = []")
        with self.out.block("for _ in range(n):"):
            if isinstance(element, Sequence):
                self._sequence(element, item, f"{path}[]", nullable=False, compact=self.version.flexible)
            else:
                self._struct(element, item, f"{path}[].")
            self._flush()
            self.out.line(f"{items}.append({item})")
        self._depth -= 1

    def _length(self, legacy_code: str, compact: bool) -> None:
        """Read a length to `n`: −1 is null, whatever the form."""
        if not compact:
            self._run.append((legacy_code, "n"))
            self._flush()
            return
        self._uvarint("n")
        self.out.line("n -= 1")

    def _uvarint(self, target: str) -> None:
        self._run.append(("B", target))
        self._flush()
        with self.out.block(f"if {target} > 127:"):
            self.out.line(f"{target}, position = uvarint(buffer, position, {target})")

    def _unless_null(self, target: str, nullable: bool, take: Callable[[], None]) -> None:
        if not nullable:  # −1 is refused with all that is negative
            take()
            return
        with self.out.block("if n == -1:"):
            self.out.line(f"{target} = None")
        with self.out.block("else:"):
            take()

    def _tagged_fields(self, tagged: tuple[Field, ...], variable: str, path: str) -> None:
        self._run.append(("B", "n"))
        self._flush()
        with self.out.block("if n:"):
            if not tagged:
                self.out.line("position = skip_tags(buffer, position, n, end)")
                return
            with self.out.block("if n > 127:"):
                self.out.line("n, position = uvarint(buffer, position, n)")
            with self.out.block(f"if n > {wire.MAX_TAGS}:"):
                self.out.line("raise refuse_tags(n)")
            with self.out.block("for _ in range(n):"):
                self._tagged_field(tagged, variable, path)

    def _tagged_field(self, tagged: tuple[Field, ...], variable: str, path: str) -> None:
        begin, stop = f"begin{self._depth}", f"stop{self._depth}"
        self._uvarint("tag")
        self._uvarint("n")
        self.out.line(f"{begin} = position")
        self.out.line(f"{stop} = position + n")
        with self.out.block(f"if {stop} > end:"):
            self.out.line("raise refuse_length(f'tagged field {tag}', n, end - position)")
        for number, f in enumerate(tagged):
            with self.out.block(f"{'elif' if number else 'if'} tag == {f.tag}:"):
                if isinstance(f.type, type) and is_nullable(f, self.version):
                    self._nullable_struct(f.type, f"{variable}.{f.name}", path + f.name, null=0)
                else:
                    self._field(f, f"{variable}.{f.name}", path)
                self._flush()
                with self.out.block(f"if position != {stop}:"):
                    self.out.line(f"raise refuse_tag({path + f.name!r}, {stop} - {begin}, position - {begin})")
        with self.out.block("else:"):
            self.out.line(f"position = {stop}")

    def _flush(self) -> None:
        """Write the run of fixed-size values that stand side by side as one statement."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        targets = [target for _, target in self._run]
        self._run.clear()
        if codes == "B":
            self.out.line(f"{targets[0]} = buffer[position]")
        else:
            unpack = self.out.name(f"unpack_{codes.replace('?', 'o')}", _unpacker(codes))
            left = ", ".join(targets) if len(targets) > 1 else f"({targets[0]},)"
            self.out.line(f"{left} = {unpack}(buffer, position)")
        self.out.line(f"position += {Packing('>' + codes).size}")


_UNPACKERS: dict[str, Any] = {}
RUN_UNPACKERS = {code: wire.RunUnpackers(code) for code in ("?", "b", "h", "i", "q", "H", "I", "d", "16s")}


def _unpacker(codes: str) -> Any:
    if codes not in _UNPACKERS:
        _UNPACKERS[codes] = Packing(">" + codes).unpack_from
    return _UNPACKERS[codes]
