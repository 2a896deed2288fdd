"""Reading partitions one has chosen oneself, from wherever one wants, as batches or as records.

    consumer = Consumer(cluster)
    consumer.assign(cluster_partitions)
    consumer.seek_to(EARLIEST)
    while True:
        for run in consumer.poll(1.0):
            for record in run.records(): ...

`poll` gives what has arrived and at once asks for what follows, so that it comes while the caller works. Errors that
pass (a leader moved, a connection was lost) are mended inside; what is left are errors of the data and of the caller,
and offsets that are not there any more, for which `out_of_range` says what to do.

A leader that does not respond is given up after half of the cluster's timeout, which leaves the other half for finding
another one. When the whole timeout has passed without success, the error is raised.

One thread. In a group, see `group_consumer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tailrace.client.batch_run import BatchRun, run_of
from tailrace.client.cluster import Cluster
from tailrace.client.deadline import Deadline
from tailrace.client.errors import OFFSET_OUT_OF_RANGE, ClientError, NoAnswerError
from tailrace.client.fetcher import Fetched, Fetcher
from tailrace.client.offsets import EARLIEST, LATEST, NO_OFFSET, READ_UNCOMMITTED, find_offsets
from tailrace.model.errors import TailraceError
from tailrace.model.ids import TopicPartition

RAISE: Final = 0
CHECK_SILENCE_S: Final = 1.0


class Consumer:
    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation: int = READ_UNCOMMITTED,
        out_of_range: int = EARLIEST,
        fetcher: Fetcher | None = None,
        check_crcs: bool = True,
    ) -> None:
        """`out_of_range` is EARLIEST, LATEST, or RAISE for an OffsetOutOfRangeError."""
        self._cluster = cluster
        self._isolation = isolation if fetcher is None else fetcher.isolation
        self._out_of_range = out_of_range
        self._fetcher = Fetcher(cluster, isolation=isolation) if fetcher is None else fetcher
        self._check_crcs = check_crcs
        self._positions: dict[TopicPartition, int] = {}
        self._backoff = cluster.backoff()
        self._patience: Deadline | None = None
        """Set by the first of several errors in a row."""
        self._max_wait_s = self._fetcher.max_wait_ms / 1000
        self._max_silence_s = self._max_wait_s + cluster.timeout_s / 2

    # What, and from where

    def assign(
        self,
        partitions: Iterable[TopicPartition],
        positions: Mapping[TopicPartition, int] | None = None,
        *,
        start: int = EARLIEST,
    ) -> None:
        """Read these and no others; new ones from their `positions`, or where those do not tell, from `start`."""
        wanted = set(partitions)
        for partition in wanted:
            self._cluster.leader(partition)
        kept = {partition: at for partition, at in self._positions.items() if partition in wanted}
        known = {partition: at for partition, at in (positions or {}).items() if partition in wanted - kept.keys()}
        self._positions = kept | known | self._offsets_at(sorted(wanted - kept.keys() - known.keys()), start)

    def assign_topic(self, topic: str) -> list[TopicPartition]:
        """All partitions that the topic has now."""
        partitions = [TopicPartition(topic, number) for number in self._cluster.topic(topic).partitions]
        self.assign(partitions)
        return partitions

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offsets that come next."""
        return dict(self._positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        if partition not in self._positions:
            raise ClientError(f"{partition} is not assigned")
        if offset < 0:
            raise ClientError(f"{offset} is no offset")
        self._positions[partition] = offset

    def seek_to(self, point: int, partitions: Iterable[TopicPartition] | None = None) -> None:
        """To EARLIEST, LATEST, or the first record of that time or later, which is the end where there is none."""
        wanted = list(self._positions if partitions is None else partitions)
        for partition, offset in self._offsets_at(wanted, point).items():
            self.seek(partition, offset)

    def ends(self) -> dict[TopicPartition, int]:
        """Where each assigned partition ends now, for a reader of this isolation."""
        return self._offsets_at(self._positions, LATEST)

    def _offsets_at(self, partitions: Iterable[TopicPartition], point: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, point)
        found = find_offsets(self._cluster, wanted, isolation=self._isolation) if wanted else {}
        beyond = [partition for partition, each in found.items() if each.offset == NO_OFFSET]
        ends = self._offsets_at(beyond, LATEST) if beyond and point != LATEST else {}
        return {partition: each.offset for partition, each in found.items()} | ends

    # Reading

    def poll(self, timeout_s: float) -> list[BatchRun]:
        """What has arrived; nothing when that is all in `timeout_s`. Each partition at most once."""
        deadline = self._cluster.deadline(timeout_s)
        while True:
            runs: list[BatchRun] = []
            try:
                with self._cluster.within(self._attempt_deadline()):
                    self._fetcher.submit(self._positions)
                    self._take(self._fetcher.receive(min(deadline.left_s, CHECK_SILENCE_S)), runs)
                    self._check_silence()
                    self._fetcher.submit(self._positions)
            except TailraceError as error:
                if runs:  # they count; the error comes again where it is lasting
                    self._start_over()
                else:
                    self._mend(error, deadline)
            if runs or deadline.is_over:
                return runs

    def _take(self, fetched: list[Fetched], runs: list[BatchRun]) -> None:
        """What can be read goes to `runs`, and its position on; then the first error is raised."""
        errors = []
        for each in fetched:
            if self._positions.get(each.partition) != each.offset:
                continue  # asked before a seek
            try:
                if each.error is not None:
                    raise each.error
                run = run_of(each, check_crcs=self._check_crcs)
            except TailraceError as error:
                errors.append((each.partition, error))
                continue
            self._patience = None
            self._positions[each.partition] = run.next_offset
            if run.next_offset > run.offset:
                runs.append(run)
        for partition, problem in errors:
            self._partition_failed(partition, problem)

    def _partition_failed(self, partition: TopicPartition, error: TailraceError) -> None:
        if error.code == OFFSET_OUT_OF_RANGE and self._out_of_range != RAISE:
            self._positions |= self._offsets_at([partition], self._out_of_range)
            return
        self._cluster.forget(partition.topic)
        raise error

    def _attempt_deadline(self) -> Deadline | None:
        """For one attempt after an error; the last one also gets enough time for a response."""
        if self._patience is None:
            return None
        return self._cluster.deadline(max(self._patience.left_s, 2 * self._max_wait_s))

    def _check_silence(self) -> None:
        waited_s = self._fetcher.waited_s
        is_last_attempt = self._patience is not None and self._patience.is_over
        if waited_s >= (2 * self._max_wait_s if is_last_attempt else self._max_silence_s):
            raise NoAnswerError(f"no response to a fetch request for {round(waited_s, 1):g} s")

    def _mend(self, error: TailraceError, deadline: Deadline) -> None:
        """Connections anew, metadata anew, a pause; the error itself when trying again cannot help."""
        waited_s = min(self._fetcher.waited_s, self._max_silence_s)
        self._start_over()
        if not error.retriable and not isinstance(error, NoAnswerError):
            raise error
        if self._patience is None:
            self._backoff = self._cluster.backoff()
            self._patience = self._cluster.deadline(max(self._cluster.timeout_s - waited_s, 0.0))
        if self._patience.is_over:
            raise error
        self._backoff.wait(deadline)

    def _start_over(self) -> None:
        """With new connections and metadata: a leader may have moved."""
        self._fetcher.abandon()
        for partition in self._positions:
            self._cluster.forget(partition.topic)

    def close(self) -> None:
        self._fetcher.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
