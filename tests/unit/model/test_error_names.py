"""Names of error codes, beside those that our errors give themselves."""

from __future__ import annotations

import pytest

from tailrace.model.error_names import error_name
from tailrace.model.errors import CorruptMessageError, InvalidTopicError, NotControllerError, TailraceError


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (-1, "UNKNOWN_SERVER_ERROR"),
        (0, "NONE"),
        (3, "UNKNOWN_TOPIC_OR_PARTITION"),
        (74, "FENCED_LEADER_EPOCH"),
        (133, "SHARE_SESSION_LIMIT_REACHED"),
        (134, "UNKNOWN_SERVER_ERROR"),
        (-2, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_names_by_code(code: int, name: str) -> None:
    assert error_name(code) == name


@pytest.mark.parametrize("error", [CorruptMessageError(""), InvalidTopicError(""), NotControllerError("")])
def test_errors_of_ours_have_the_same_name(error: TailraceError) -> None:
    assert error_name(error.code) == error.name


def test_a_text_that_repeats_something_endless_is_cut() -> None:
    assert str(TailraceError("x" * 2000)) == "x" * 2000
    assert str(TailraceError("x" * 2001)) == "x" * 1999 + "…"
