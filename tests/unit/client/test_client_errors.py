from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tailrace.client.errors import class_of, error_of, is_retriable, name_of
from tailrace.model.errors import (
    CorruptMessageError,
    InvalidRequestError,
    LogDirUnavailableError,
    OffsetOutOfRangeError,
    StorageError,
    TailraceError,
    UnsupportedVersionError,
)

NEWEST = 133


@pytest.mark.parametrize("code", [-1, *range(1, NEWEST + 1)])
def test_every_code_of_kafka_is_an_exception_with_that_code(code: int) -> None:
    error = error_of(code, "what happened")
    assert isinstance(error, TailraceError)
    assert error.code == code
    assert str(error) == "what happened"


@pytest.mark.parametrize("known", [each for each in ErrorCode if each.value > 0], ids=lambda each: each.name)
def test_names_and_judgements_are_kafkas(known: ErrorCode) -> None:
    assert name_of(known.value).lower() == known.name
    assert is_retriable(known.value) == known.retriable


@pytest.mark.parametrize("code", range(1, NEWEST + 1))
def test_our_classes_agree_with_kafka_on_what_passes(code: int) -> None:
    assert class_of(code).retriable == is_retriable(code)


def test_codes_that_have_a_class_are_that_class() -> None:
    assert class_of(1) is OffsetOutOfRangeError
    assert class_of(2) is CorruptMessageError
    assert class_of(35) is UnsupportedVersionError


@pytest.mark.parametrize("code", [InvalidRequestError.code, LogDirUnavailableError.code])
def test_a_code_with_several_reasons_does_not_get_the_hint_of_one(code: int) -> None:
    """A broker answers INVALID_REQUEST also for a setting that it refuses, KAFKA_STORAGE_ERROR for a full disk."""
    error = error_of(code, "num.partitions: cannot be changed at run time")
    assert error.hint not in (InvalidRequestError.hint, LogDirUnavailableError.hint)
    assert type(error) is class_of(code)


def test_a_class_that_is_not_made_of_a_message_is_not_taken() -> None:
    assert StorageError.code == 56
    assert class_of(56) is not StorageError
    assert str(error_of(56)) == "KAFKA_STORAGE_ERROR"


def test_a_code_without_a_class_gets_one_with_kafkas_name() -> None:
    error = error_of(89)
    assert type(error) is class_of(89)
    assert error.name == "THROTTLING_QUOTA_EXCEEDED"
    assert error.retriable


def test_a_code_from_the_future_is_an_error_all_the_same() -> None:
    error = error_of(999)
    assert (error.code, str(error), error.retriable) == (999, "ERROR_999", False)
