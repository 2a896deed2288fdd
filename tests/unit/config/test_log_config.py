"""Topic settings: Kafka's keys, defaults and ranges."""

from __future__ import annotations

import pytest

from tailrace.config.log import MAX_LONG, ConfigError, LogConfig

CLEANUP_KEYS: dict[str, tuple[float, dict[str, float], list[str]]] = {
    "delete.retention.ms": (86_400_000, {"0": 0, "1": 1}, ["-1"]),
    "max.compaction.lag.ms": (MAX_LONG, {"1": 1}, ["0"]),
    "min.cleanable.dirty.ratio": (0.5, {"0": 0, "0.25": 0.25, "1": 1}, ["-0.1", "1.1", "nan", "half"]),
    "min.compaction.lag.ms": (0, {"0": 0, "5": 5}, ["-1"]),
    "retention.bytes": (-1, {"-1": -1, "-2": -2, "0": 0, str(MAX_LONG): MAX_LONG}, [str(MAX_LONG + 1), "1.5"]),
    "retention.ms": (604_800_000, {"-1": -1, "0": 0, str(MAX_LONG): MAX_LONG}, ["-2", "week"]),
}


@pytest.mark.parametrize("key", CLEANUP_KEYS)
def test_defaults_and_ranges_of_what_deletes_and_compacts(key: str) -> None:
    default, good, bad = CLEANUP_KEYS[key]
    name = key.replace(".", "_")
    assert getattr(LogConfig(), name) == default
    for text, value in good.items():
        assert getattr(LogConfig.of({key: text}), name) == value
    for text in bad:
        with pytest.raises(ConfigError, match=key):
            LogConfig.of({key: text})


def test_the_least_compaction_lag_cannot_exceed_the_most() -> None:
    LogConfig.of({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "10"})
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=11"):
        LogConfig.of({"min.compaction.lag.ms": "11", "max.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("text", "deletes", "compacts"), [("delete", True, False), ("compact", False, True), ("compact,delete", True, True)]
)
def test_cleanup_policies(text: str, deletes: bool, compacts: bool) -> None:
    config = LogConfig.of({"cleanup.policy": text})
    assert (config.deletes, config.compacts) == (deletes, compacts)


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"retention\.hours"):
        LogConfig.of({"retention.hours": "1"})
