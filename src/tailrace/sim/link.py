"""One direction between two machines: how long bytes take, how many get lost, and whether any get through."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace


@dataclass(slots=True)
class LinkRules:
    """May be changed at any moment; what is on its way arrives as it was sent."""

    min_delay_us: int = 50
    mean_extra_delay_us: int = 150
    """Added to the minimum, distributed exponentially."""
    loss_probability: float = 0.0
    """That a chunk is lost. TCP sends it again, so that a loss is a stall."""
    split_probability: float = 0.1
    """That a chunk is split at a random byte."""
    bytes_per_second: int | None = None

    def copy(self) -> LinkRules:
        return replace(self)


class Link:
    __slots__ = ("_busy_until_us", "_random", "is_cut", "is_rejecting", "rejected_ports", "rules", "source", "target")

    def __init__(self, source: str, target: str, rules: LinkRules, rng: random.Random) -> None:
        self.source = source
        self.target = target
        self.rules = rules
        self.is_cut = False
        """A partition: everything is lost, without a word to anybody."""
        self.is_rejecting = False
        """A firewall refuses new connections."""
        self.rejected_ports: dict[int, None] = {}
        """Ports to which a firewall refuses new connections."""
        self._random = rng
        self._busy_until_us = 0

    def loses(self) -> bool:
        """Whether what is sent now gets lost."""
        if self.is_cut:
            return True
        probability = self.rules.loss_probability
        return probability > 0 and self._random.random() < probability

    def refuses(self, port: int) -> bool:
        return self.is_rejecting or port in self.rejected_ports

    def arrival_us(self, now_us: int, size: int) -> int:
        """When a chunk that is sent now arrives."""
        rules = self.rules
        if rules.bytes_per_second is not None:
            now_us = max(now_us, self._busy_until_us) + size * 1_000_000 // rules.bytes_per_second
            self._busy_until_us = now_us
        extra_us = rules.mean_extra_delay_us
        return now_us + rules.min_delay_us + (int(self._random.expovariate(1.0) * extra_us) if extra_us else 0)

    def chunk_size(self, size: int) -> int:
        """How many of the next `size` bytes go together."""
        if size > 1 and self._random.random() < self.rules.split_probability:
            return self._random.randrange(1, size)
        return size
