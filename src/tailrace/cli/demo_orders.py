"""The orders of the demo: the same ones for the same seed, with keys and JSON values as a shop would write them."""

from __future__ import annotations

import json
import random
from typing import Final, NamedTuple

SEED: Final = 1
CUSTOMERS: Final = 500
ITEMS: Final = {"teapot": 2950, "lamp": 4900, "chair": 12900, "kettle": 3490, "mirror": 7900, "clock": 5450}
MOST_PIECES: Final = 5
NO_ORDER: Final = -1


class Order(NamedTuple):
    number: int
    key: bytes
    """The customer: all orders of one are in one partition, in their order."""
    value: bytes


class Orders:
    """Numbered from 0 on. Some customers order far more often than others, so that partitions differ."""

    def __init__(self, seed: int = SEED) -> None:
        self._random = random.Random(seed)
        self._items = list(ITEMS.items())
        self._next = 0

    def next(self) -> Order:
        chance = self._random.random
        number, self._next = self._next, self._next + 1
        customer = f"customer-{int(chance() ** 2 * CUSTOMERS):03}"
        item, cents = self._items[int(chance() * len(self._items))]
        pieces = 1 + int(chance() ** 3 * MOST_PIECES)
        content = {"order": number, "customer": customer, "item": item, "pieces": pieces, "cents": cents * pieces}
        return Order(number, customer.encode(), json.dumps(content).encode())


def number_of(value: bytes | None) -> int:
    """The number of the order that `value` is; NO_ORDER for what somebody else may have written."""
    try:
        content = json.loads(value or b"")
    except (ValueError, RecursionError):
        return NO_ORDER
    number = content.get("order") if isinstance(content, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else NO_ORDER
