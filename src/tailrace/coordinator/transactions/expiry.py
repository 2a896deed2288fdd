"""Transactions that take too long, and transactional ids that nobody uses any more.

    every transaction.abort.timed.out.transaction.cleanup.interval.ms    abort what has run longer than its timeout
    every transaction.remove.expired.transaction.cleanup.interval.ms     write tombstones of ids that were idle for
                                                                          transactional.id.expiration.ms

There may be very many ids, so that they are looked at some at a time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tailrace.coordinator.outcome import NOTHING, CoordinatorRecord, Outcome
from tailrace.coordinator.transactions.transaction_log import tombstone
from tailrace.model.errors import TailraceError

if TYPE_CHECKING:
    from tailrace.coordinator.transactions.shard import TransactionShard

_log = logging.getLogger(__name__)

IDS_AT_ONCE: Final = 2_000
BATCH_BYTES: Final = 256 * 1024
_RECORD_BYTES: Final = 16  # what a tombstone has besides its id

_TIMEOUTS: Final = "transaction-timeouts"
_IDLE: Final = "idle-transactional-ids"


class Expiry:
    def __init__(self, machine: TransactionShard) -> None:
        self._machine = machine
        self._unseen: list[str] = []

    def start(self) -> None:
        self._look_for_timeouts_later()
        self._look_for_idle_later()

    def _look_for_timeouts_later(self) -> None:
        shard = self._machine.shard
        interval_ms = shard.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        shard.timers.schedule(_TIMEOUTS, interval_ms, self._abort_timed_out)

    def _abort_timed_out(self) -> Outcome:
        self._look_for_timeouts_later()
        machine = self._machine
        now_ms = machine.shard.clock.now_ms()
        for transactional_id in list(machine.ongoing):
            if machine.transactions[transactional_id].has_timed_out(now_ms):
                self._abort(transactional_id)
        return NOTHING

    def _abort(self, transactional_id: str) -> None:
        machine = self._machine

        def failed(error: TailraceError) -> None:
            _log.info(
                "the transaction of %s has timed out; at the next look it is aborted: %s", transactional_id, error
            )

        machine.shard.submit("transaction-timeout", lambda: machine.abort(transactional_id), None, failed)

    def _look_for_idle_later(self) -> None:
        shard = self._machine.shard
        interval_ms = shard.config.transaction_remove_expired_transaction_cleanup_interval_ms
        shard.timers.schedule(_IDLE, interval_ms, self._begin_to_expire)

    def _begin_to_expire(self) -> Outcome:
        self._unseen = list(self._machine.transactions)
        return self._expire()

    def _expire(self) -> Outcome:
        """Where the append fails nothing is removed, and the same ids are looked at again."""
        machine = self._machine
        shard = machine.shard
        idle_since_ms = shard.clock.now_ms() - shard.config.transactional_id_expiration_ms
        expired: list[CoordinatorRecord] = []
        seen = size_bytes = 0
        for transactional_id in reversed(self._unseen[-IDS_AT_ONCE:]):
            seen += 1
            transaction = machine.transactions.get(transactional_id)
            if transaction is not None and transaction.state.is_at_rest and transaction.updated_ms <= idle_since_ms:
                expired.append(tombstone(transactional_id))
                size_bytes += len(transactional_id.encode()) + _RECORD_BYTES
                if size_bytes >= BATCH_BYTES:
                    break

        def then(error: TailraceError | None) -> None:
            if error is None:
                del self._unseen[len(self._unseen) - seen :]
                if self._unseen:
                    shard.timers.schedule(_IDLE, 0, self._expire)
                else:
                    self._look_for_idle_later()

        return Outcome(expired, then=then)
