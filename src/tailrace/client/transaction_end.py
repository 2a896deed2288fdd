"""Transactions seen and ended from outside: by whoever knows their ids, producer ids and epochs, in any process.

With transaction.version 2 (KIP-890) each end gives the id's next epoch. Asked again, an end is answered as it was,
until the id is taken over or its next transaction begins; then, and where it had ended otherwise, it is refused.

One thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from tailrace.client.cluster import Cluster
from tailrace.client.config_admin import ConfigAdmin, Resource
from tailrace.client.coordinators import TRANSACTION, Coordinators
from tailrace.client.errors import (
    NONE,
    TRANSACTIONAL_ID_NOT_FOUND,
    ClientError,
    ConnectionLostError,
    NoAnswerError,
    refusal,
)
from tailrace.client.outgoing import Identity
from tailrace.client.transaction import FEATURE, V2
from tailrace.client.transaction_admin import LONGEST_TRANSACTION_MS, TransactionAdmin
from tailrace.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tailrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tailrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

ONGOING: Final = "Ongoing"
MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
SCAN_INTERVAL: Final = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
USUAL_SCAN_MS: Final = 10_000


class AnswerLostError(ClientError):
    """Whether the request was carried out, or still will be, is not known."""

    hint = "it is not asked again: the first request may come later than the second"


class OpenTransaction(NamedTuple):
    """Of a transactional id that there is. `began_ms` is by its coordinator's clock, and None where nothing is open."""

    identity: Identity
    is_open: bool
    began_ms: int | None
    timeout_ms: int


class TransactionEnds:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, TRANSACTION)
        self._admin = TransactionAdmin(cluster)

    def check_version(self) -> None:
        """ClientError where ends give no epochs."""
        said = self._cluster.any_connection().broker
        if not any(each.name == FEATURE and each.max_version_level >= V2 for each in said.finalized_features):
            raise ClientError(
                f"the cluster's {FEATURE} is below {V2}: transactions can only be ended by who began them"
            )

    def longest_timeout_ms(self) -> int:
        """What every broker allows."""
        return min(self._settings(MAX_TIMEOUT), default=LONGEST_TRANSACTION_MS)

    def scan_interval_ms(self) -> int:
        """A transaction may live so much longer than its timeout."""
        return max(self._settings(SCAN_INTERVAL), default=USUAL_SCAN_MS)

    def _settings(self, name: str) -> list[int]:
        """Of every broker that tells."""
        self._cluster.retry("asking which brokers there are", lambda: self._cluster.refresh(()))
        return [
            int(entry.value)
            for node_id in self._cluster.brokers
            for entry in ConfigAdmin(self._cluster).describe(Resource.broker(node_id), [name])
            if entry.value is not None and entry.value.isdecimal()
        ]

    def take(self, transactional_id: str, timeout_ms: int, *, is_once: bool = False) -> Identity:
        """An identity that nobody had before. Aborts what is open under the id, and fences who has it: also when the
        request comes late, after its sender has asked again. `is_once`: AnswerLostError instead of asking again."""
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)

        def ask(node_id: int) -> Identity:
            try:
                response: InitProducerIdResponse = self._cluster.call(request, node_id=node_id)
            except (ConnectionLostError, NoAnswerError) as error:
                if is_once:
                    raise AnswerLostError(f"taking {transactional_id} was not answered: {error}") from error
                raise
            if response.error_code != NONE:
                raise refusal(response.error_code, f"asking for the producer id of {transactional_id}")
            return Identity(response.producer_id, response.producer_epoch)

        return self._coordinators.ask(f"taking {transactional_id}", transactional_id, ask)

    def end(self, transactional_id: str, identity: Identity, *, is_commit: bool) -> Identity:
        """The identity behind it. An abort may find nothing open: then it only gives the next epoch."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        doing = f"{'committing' if is_commit else 'aborting'} the transaction of {transactional_id}"

        def ask(node_id: int) -> Identity:
            response: EndTxnResponse = self._cluster.call(request, node_id=node_id)
            if response.error_code != NONE:
                raise refusal(response.error_code, doing)
            return Identity(response.producer_id, response.producer_epoch)

        return self._coordinators.ask(doing, transactional_id, ask)

    def look(self, transactional_ids: Iterable[str]) -> dict[str, OpenTransaction]:
        """Those of the ids that there are."""
        found: dict[str, OpenTransaction] = {}
        wanted = set(transactional_ids)

        def ask() -> None:
            for node_id, ids in self._coordinators.by_node(sorted(wanted)).items():
                request = DescribeTransactionsRequest(transactional_ids=ids)
                response: DescribeTransactionsResponse = self._cluster.call(request, node_id=node_id)
                for said in response.transaction_states:
                    if said.error_code not in (NONE, TRANSACTIONAL_ID_NOT_FOUND):
                        self._coordinators.forget(said.transactional_id)
                        raise refusal(said.error_code, f"describing {said.transactional_id}")
                    wanted.discard(said.transactional_id)
                    if said.error_code == NONE:
                        began_ms = said.transaction_start_time_ms
                        is_open = said.transaction_state == ONGOING
                        found[said.transactional_id] = OpenTransaction(
                            Identity(said.producer_id, said.producer_epoch),
                            is_open,
                            began_ms if is_open and began_ms >= 0 else None,
                            said.transaction_timeout_ms,
                        )

        self._cluster.retry("describing transactions", ask)
        return found

    def open_ids(self, pattern: str) -> list[str]:
        """Transactional ids that match as a whole and have a transaction open; by name."""
        matching = re.compile(pattern, re.ASCII)
        listed = self._admin.transactions(states=[ONGOING])
        return [each.transactional_id for each in listed if matching.fullmatch(each.transactional_id)]
