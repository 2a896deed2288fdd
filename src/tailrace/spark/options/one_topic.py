"""Options of the source for calls that look at one topic: what the call says itself is not said again by an option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tailrace.spark.errors import OptionError

ISOLATION: Final = "kafka.isolation.level"

_SAID_OTHERWISE: Final = ("subscribe", "subscribepattern", "assign", "columns", "includeheaders", "filterpushdown")


def options_for_one_topic(
    options: Mapping[str, object], *, brokers: str | None, path: str | None, isolation: str, refusal: str
) -> dict[str, str]:
    """As Spark takes them, without which topic. `isolation` is for when the options do not say it.

    OptionError for what cannot be; of an option that does not go with such a call it says `refusal`.
    """
    taken = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    names = {name.lower(): name for name in taken}
    for name in _SAID_OTHERWISE:
        if name in names:
            raise OptionError(f"option {names[name]} does not go with {refusal}")
    for name, argument in (("kafka.bootstrap.servers", brokers), ("path", path)):
        if argument is not None:
            if name in names and taken[names[name]] != argument:
                raise OptionError(f"option {names[name]} contradicts an argument of the call: leave one of them out")
            taken.pop(names.get(name, name), None)
            taken[name] = argument
    return taken if ISOLATION in names else {**taken, ISOLATION: isolation}
