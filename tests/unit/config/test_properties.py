"""Java properties files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.config.properties import parse_properties
from tailrace.config.table import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n! comment\n   # comment\n\n \t\n", {}),
        ("a=b", {"a": "b"}),
        ("a:b\n", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a = b c ", {"a": "b c "}),
        ("a\t:\tb", {"a": "b"}),
        ("  a  =  =b", {"a": "=b"}),
        ("a==b", {"a": "=b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\\n   2,\\\n\t3", {"a": "12,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        (r"a\ b\=c=d", {"a b=c": "d"}),
        (r"a\:b:c", {"a:b": "c"}),
        (r"a=\t\n\r\f\\\q\"", {"a": '\t\n\r\f\\q"'}),
        (r"caf\u00e9=\u20AC", {"café": "€"}),
        (r"a=\ud83d\ude00", {"a": "😀"}),
        (r"path=C:\\data", {"path": r"C:\data"}),
        ("a=1 # no comment", {"a": "1 # no comment"}),
    ],
)
def test_what_a_file_says(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text.encode()) == expected


def test_both_encodings_are_read() -> None:
    assert parse_properties("a=é".encode("latin-1")) == {"a": "é"}
    assert parse_properties("a=é".encode()) == {"a": "é"}


@pytest.mark.parametrize("text", [r"a=\u12", r"b=1\uzzzz"])
def test_an_escape_that_is_none_is_named_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match="line 2: "):
        parse_properties(f"x=y\n{text}".encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_settings_or_an_error(data: bytes) -> None:
    try:
        found = parse_properties(data)
    except ConfigError:
        return
    for name, value in found.items():
        (name + value).encode()  # text that can be written
