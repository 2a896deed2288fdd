"""What the calls of `tailrace.spark` make of their arguments; no session is started."""

from __future__ import annotations

from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceReader

from tailrace.spark.errors import OptionError
from tailrace.spark.frames import PUSHDOWN_SETTING, read, read_stream, write_stream


class Recorder:
    """Takes what a reader or writer of Spark takes, and gives the options."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self.settings = settings or {}
        self.conf = self.read = self.readStream = self.writeStream = self

    def get(self, name: str, default: str) -> str:
        return self.settings.get(name, default)

    def format(self, name: str) -> Recorder:
        assert name == "tailrace"
        return self

    def options(self, **given: str) -> Recorder:
        self.given = given
        return self

    def load(self) -> dict[str, str]:
        return self.given


def options_of(*args: Any, settings: dict[str, str] | None = None, **more: Any) -> dict[str, str]:
    return cast("dict[str, str]", read(*args, session=cast("Any", Recorder(settings)), **more))


def test_arguments_become_options() -> None:
    given = options_of(["a", "b"], brokers="b:1", failOnDataLoss=False, minPartitions=4)
    assert given == {
        "subscribe": "a,b",
        "kafka.bootstrap.servers": "b:1",
        "failOnDataLoss": "false",
        "minPartitions": "4",
    }


def test_filters_are_not_pushed_unasked_where_spark_mixes_up_the_uses_of_a_frame() -> None:
    """Up to 4.3.0: `frame.where("offset < 10").count()`, and then `frame.count()` is 10 as well."""
    allowed = {PUSHDOWN_SETTING: "true"}
    assert not hasattr(DataSourceReader, "pushLimit"), "see whether this Spark still does"
    assert "filterPushdown" not in options_of("a", path="/p", settings=allowed)
    assert options_of("a", path="/p", filterPushdown=True)["filterPushdown"] == "true"


def test_filters_are_pushed_where_the_session_allows_it_unless_told_otherwise_in_any_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(DataSourceReader, "pushLimit", None, raising=False)
    allowed = {PUSHDOWN_SETTING: "true"}
    assert options_of("a", path="/p", settings=allowed)["filterPushdown"] == "true"
    assert "filterPushdown" not in options_of("a", path="/p")
    given = options_of("a", path="/p", settings=allowed, options={"filterpushdown": "false"})
    assert {name: value for name, value in given.items() if name.lower() == "filterpushdown"} == {
        "filterpushdown": "false"
    }


def test_an_argument_and_an_option_that_contradict_it_are_refused() -> None:
    with pytest.raises(OptionError, match="Subscribe"):
        options_of("a", path="/p", options={"Subscribe": "b"})
    with pytest.raises(OptionError, match="topics or a pattern"):
        options_of("a", path="/p", pattern="b")
    with pytest.raises(OptionError, match="path"):
        read_stream("a", path="/p", session=cast("Any", Recorder()), options={"path": "/q"})
    with pytest.raises(OptionError, match="delivery"):
        write_stream(cast("Any", Recorder()), "t", brokers="b:1", sink_id="s", delivery="at-least-once")
    assert options_of("a", path="/p", options={"Subscribe": "a"}) == {"subscribe": "a", "path": "/p"}
