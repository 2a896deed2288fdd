"""The examples of docs/testing.md run as they stand: scripts as scripts, tests with pytest and the plugin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing.md"


class Example(NamedTuple):
    heading: str
    code: str


def examples() -> list[Example]:
    """Each block of Python, with the heading that it stands under."""
    found: list[Example] = []
    heading = ""
    for part in re.finditer(
        r"^#+ (?P<heading>[^\n]+)$|^```python\n(?P<code>.*?)^```$", DOCUMENT.read_text(), re.M | re.S
    ):
        if part["heading"]:
            heading = part["heading"]
        else:
            found.append(Example(heading, part["code"]))
    return found


def test_every_library_has_its_example() -> None:
    assert [each.heading for each in examples()] == [
        "One broker",
        "confluent-kafka",
        "kafka-python",
        "aiokafka",
        "When the broker crashes",
    ]


@pytest.mark.compat
@pytest.mark.parametrize("example", examples(), ids=lambda each: each.heading)
def test_the_example_does_what_it_says(example: Example, pytester: pytest.Pytester) -> None:
    if "def test_" in example.code:
        pytester.makepyfile(test_example=example.code)
        result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
        result.assert_outcomes(passed=1)
    else:
        result = pytester.runpython(pytester.makepyfile(example=example.code))
        assert result.ret == 0
        assert re.fullmatch(r"127\.0\.0\.1:\d+", result.outlines[-1])
