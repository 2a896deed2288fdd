"""Values of the protocol: one class a message, with the fields of all its versions.

The classes are declared in `messages/` and `records/`. Each has `__slots__`, is made by keywords with everything
optional, compares by value and prints what differs from the defaults:

    FetchRequest(max_wait_ms=500, topics=[FetchRequest.FetchTopic(topic="orders")])

They are plain data: a handler serves all versions with one class, and only the codec knows which fields a version has.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, ClassVar, dataclass_transform

from tailrace.model.errors import CorruptMessageError, InvalidDataError, InvalidRequestError
from tailrace.protocol.schema import UNSET, UUID, Field, Payload, in_versions, version_range

SHOWN_BYTES = 32  # of a bytes value, in repr


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Turns the `field()` lines of a class body into `__slots__` and `__fields__`, in order of the wire."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any) -> StructMeta:
        fields = []
        for field_name, declared in body.items():
            if isinstance(declared, Field):
                declared.name = field_name
                fields.append(declared)
        slotted = {key: value for key, value in body.items() if not isinstance(value, Field)}
        slotted["__slots__"] = tuple(declared.name for declared in fields)
        slotted["__fields__"] = tuple(fields)
        return super().__new__(mcs, name, bases, slotted, **options)


class Struct(metaclass=StructMeta):
    __fields__: ClassVar[tuple[Field, ...]]
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, **values: Any) -> None:
        # The real one is compiled when the first of its kind is made; most classes are never instantiated.
        cls = type(self)
        cls.__init__ = compiled_init(cls)  # type: ignore[method-assign]
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.name) == getattr(other, f.name) for f in self.__fields__)

    def __repr__(self) -> str:
        values = ((f, getattr(self, f.name)) for f in self.__fields__)
        shown = (f"{f.name}={_shown(value, f)}" for f, value in values if value != f.default_value())
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A struct that goes over the wire or into a file by itself: `key` is its api key or record type."""

    # In capitals, because fields of any lower-case name live in the same class.
    KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[str]
    MALFORMED: ClassVar[type[InvalidDataError]] = CorruptMessageError
    MAX_ELEMENTS: ClassVar[int] = 0x7FFF_FFFF  # of all its arrays together, when bytes are decoded
    TEXT_ERRORS: ClassVar[str] = "strict"  # what becomes of strings that are not UTF-8, in Python's words
    # By version: what `tailrace.protocol.codec` has compiled so far.
    DECODERS: ClassVar[dict[int, Callable[[memoryview, int, int], tuple[Any, int]]]]
    ENCODERS: ClassVar[dict[int, Callable[[Any, list[Payload], list[int]], None]]]

    def __init_subclass__(cls, *, key: int = -1, versions: str = "", flexible: str = "") -> None:
        super().__init_subclass__()
        bounds = version_range(versions)
        if bounds is not None:  # the kinds of messages below have no versions of their own
            cls.KEY, cls.VERSIONS, cls.FLEXIBLE = key, bounds, flexible
            cls.DECODERS, cls.ENCODERS = {}, {}

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return in_versions(version, cls.FLEXIBLE)


class Request(Message):
    MALFORMED = InvalidRequestError
    MAX_ELEMENTS = 200_000  # anybody may send one, and an object takes many times the bytes that announce it
    TEXT_ERRORS = "replace"  # as Kafka has it: a client's id may be in any encoding, and no name has such characters


class Response(Message):
    pass


class RequestHead(Message):
    MALFORMED = InvalidRequestError
    TEXT_ERRORS = Request.TEXT_ERRORS


class ResponseHead(Message):
    pass


class Record(Message):
    """Written to a log: metadata records, and the values of control records."""


def compiled_init(cls: type[Struct]) -> Any:
    """`__init__` with one keyword a field, as one would write it by hand."""
    names: dict[str, Any] = {"UNSET": UNSET}
    parameters, body = [], []
    for f in cls.__fields__:
        make = f.default_factory()
        if make is None:
            names[f"default_{f.name}"] = f.default
            parameters.append(f"{f.name}=default_{f.name}")
            body.append(f"self.{f.name} = {f.name}")
        else:
            names[f"make_{f.name}"] = make
            parameters.append(f"{f.name}=UNSET")
            body.append(f"self.{f.name} = make_{f.name}() if {f.name} is UNSET else {f.name}")
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    source = f"def __init__({signature}):\n    " + "\n    ".join(body or ["pass"])
    exec(compile(source, f"<{cls.__qualname__}.__init__>", "exec"), names)
    return names["__init__"]


def _shown(value: Any, declared: Field) -> str:
    if declared.type is UUID and isinstance(value, bytes):
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if isinstance(value, bytes | bytearray | memoryview):
        some = "…" if len(value) > SHOWN_BYTES else ""
        return f"<{len(value)} bytes {bytes(value[:SHOWN_BYTES]).hex()}{some}>"
    return repr(value)
