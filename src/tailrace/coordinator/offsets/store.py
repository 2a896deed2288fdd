"""The offsets of all groups of one shard: what they have committed, and the commands that change and show it.

    table      what counts, as far as the coordinator's log goes
    unsettled  what counted before changes that are not committed yet: that is shown
    pending    what open transactions will have committed

`replay` and `replay_marker` are the only places where any of it changes. Of two commits of one partition the later in
the log counts: a transaction's from where it stands, not from where its marker does.

Who may call: the node's thread; commands only inside a turn of the shard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tailrace.coordinator.groups.group import CommitCheck, Group
from tailrace.coordinator.offsets.answers import nothing, shown, unstable
from tailrace.coordinator.offsets.counts import OffsetCounts
from tailrace.coordinator.offsets.entry import UNKNOWN_TOPIC_ID, CommittedOffset
from tailrace.coordinator.offsets.expiry import OffsetExpiry, TombstoneBatch
from tailrace.coordinator.offsets.offset_records import commit_record, entry_of, tombstone
from tailrace.coordinator.offsets.pending import PendingOffsets
from tailrace.coordinator.offsets.prepared_commit import PreparedCommit
from tailrace.coordinator.offsets.table import OffsetTable
from tailrace.coordinator.offsets.unsettled import UnsettledChanges
from tailrace.coordinator.outcome import CoordinatorRecord, Outcome, ProducerBatchId
from tailrace.metadata.delta import MetadataDelta
from tailrace.metadata.image import MetadataImage
from tailrace.metadata.topic_image import TopicImage
from tailrace.model.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    OffsetMetadataTooLargeError,
    StaleMemberEpochError,
    TailraceError,
    UnknownServerError,
)
from tailrace.model.ids import NO_TIMESTAMP
from tailrace.protocol.message import Record
from tailrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tailrace.protocol.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tailrace.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from tailrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tailrace.protocol.records.group_offsets import LegacyOffsetCommitKey, OffsetCommitKey

if TYPE_CHECKING:
    from tailrace.coordinator.groups.shard import GroupShard, Replayer

GROUP_ID_NOT_FOUND_FROM: Final = 9
"""Versions of OffsetCommit before know a generation that is wrong, but no group that is not there."""
LEAST_RECORD_BYTES: Final = 40
"""Of a committed offset: what cannot be written in one batch need not be made, however much is asked for."""
_DEFAULT_RETENTION: Final = -1
_SMALLEST_LONG: Final = -(1 << 63)


class OffsetStore:
    def __init__(self, groups: GroupShard, counts: OffsetCounts | None = None) -> None:
        self._group_shard = groups
        self.shard = groups.shard
        self.groups: Mapping[str, Group] = groups.groups
        self.counts = counts or OffsetCounts()
        self.table = OffsetTable()
        self.pending = PendingOffsets()
        self._unsettled = UnsettledChanges(groups.shard.is_committed)
        self._expiry = OffsetExpiry(self)

    # What the shard tells

    def replayers(self) -> Mapping[type[Record], Replayer]:
        return {OffsetCommitKey: self.replay, LegacyOffsetCommitKey: self.replay}

    def replay(self, record: CoordinatorRecord, offset: int, producer: ProducerBatchId | None = None) -> None:
        key, value, _ = record
        assert isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey)
        group_id, place = key.group, (key.topic, key.partition)
        if value is None:
            self.pending.drop(group_id, place)
            before = self.table.remove(group_id, *place)
            if before is not None:
                self._unsettled.note(offset, group_id, place, before)
            return
        if group_id not in self.groups:
            self._group_shard.classic.get_or_make(group_id)
        entry = entry_of(value, offset)
        if producer is not None:
            self.pending.add(producer.id, group_id, place, entry)
        else:
            self._unsettled.note(offset, group_id, place, self.table.put(group_id, *place, entry))

    def replay_marker(self, producer_id: int, is_commit: bool, offset: int) -> None:
        """The producer's transaction has ended on this partition of the coordinator's topic."""
        taken = self.pending.take(producer_id)
        if not is_commit:
            return
        for group_id, topic, partition, entry in taken:
            current = self.table.get(group_id, topic, partition)
            if current is None or entry.record_offset > current.record_offset:
                self.table.put(group_id, topic, partition, entry)
                self._unsettled.note(offset, group_id, (topic, partition), current)

    def loaded(self) -> None:
        self._expiry.start()

    def unloaded(self, error: TailraceError) -> None:
        """Nobody waits here."""

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for topic in delta.deleted_topics:
            self._delete_of_topic(topic)

    # OffsetCommit and TxnOffsetCommit

    def commit(self, request: OffsetCommitRequest, topics: list[OffsetCommitRequestTopic], api_version: int) -> Outcome:
        """`topics` are those of the request that exist, with name and id, and with partitions that exist."""
        group_id = request.group_id
        check = self._check_commit(request, api_version)
        now_ms = self.shard.clock.now_ms()
        expires_ms = NO_TIMESTAMP
        if request.retention_time_ms != _DEFAULT_RETENTION:
            expires_ms = _as_long(now_ms + request.retention_time_ms)
        longest = self.shard.config.offset_metadata_max_bytes
        most = self.shard.largest_batch_bytes // LEAST_RECORD_BYTES
        records: list[CoordinatorRecord] = []
        response = OffsetCommitResponse()
        for topic in topics:
            name, topic_id = topic.name, topic.topic_id
            rows: list[OffsetCommitResponsePartition] = []
            response.topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=rows))
            for each in topic.partitions:
                index, note = each.partition_index, each.committed_metadata
                if note and _is_too_long(note, longest):
                    code = OffsetMetadataTooLargeError.code
                    rows.append(OffsetCommitResponsePartition(partition_index=index, error_code=code))
                    continue
                if check is not None:
                    check(name, topic_id, index)
                rows.append(OffsetCommitResponsePartition(partition_index=index))
                if len(records) == most:
                    raise UnknownServerError(f"more than {most} offsets cannot be committed at once")
                offset, epoch = each.committed_offset, each.committed_leader_epoch
                records.append(commit_record(group_id, name, index, offset, epoch, note, now_ms, expires_ms, topic_id))
        self.counts.commits += len(records)
        return Outcome(records, response)

    def can_commit(self, prepared: PreparedCommit, api_version: int) -> bool:
        """Whether a commit that was taken before would be taken again; otherwise `commit` says why not."""
        request = prepared.request
        group = self.groups.get(request.group_id)
        if group is None or _is_too_long(prepared.longest_note, self.shard.config.offset_metadata_max_bytes):
            return False
        try:
            check = group.check_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                is_transactional=False,
                api_version=api_version,
            )
        except TailraceError:
            return False
        if check is None:
            group.committed_by(request.member_id)
        return check is None

    def commit_prepared(self, prepared: PreparedCommit, offsets: tuple[int, ...]) -> int | None:
        """What `commit` would do. Returns the last offset written; None when it has to take its turn."""
        now_ms = self.shard.clock.now_ms()

        def replay(first_offset: int) -> None:
            group_id, put = prepared.request.group_id, self.table.put
            entries = prepared.entries(offsets, now_ms, first_offset)
            if not self._unsettled and self.shard.is_committed(first_offset + prepared.count - 1):
                for topic, partition, entry in entries:
                    put(group_id, topic, partition, entry)
                return
            for topic, partition, entry in entries:
                before = put(group_id, topic, partition, entry)
                self._unsettled.note(entry.record_offset, group_id, (topic, partition), before)

        last = self.shard.append_prepared(prepared.batch(offsets, now_ms), replay)
        if last is not None:
            self.counts.commits += prepared.count
        return last

    def _check_commit(self, request: OffsetCommitRequest, api_version: int) -> CommitCheck | None:
        epoch = request.generation_id_or_member_epoch
        group = self.groups.get(request.group_id)
        if group is None:
            if epoch < 0:
                return None  # by an administrator, or by a consumer that manages its partitions itself
            if api_version >= GROUP_ID_NOT_FOUND_FROM:
                raise GroupIdNotFoundError(f"there is no group {request.group_id!r}")
            raise IllegalGenerationError(f"there is no group {request.group_id!r}, let alone its generation {epoch}")
        member_id = request.member_id
        check = group.check_commit(
            member_id, request.group_instance_id, epoch, is_transactional=False, api_version=api_version
        )
        group.committed_by(member_id)
        return check

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic], api_version: int
    ) -> Outcome:
        """`topics` as for `commit`. Errors of the new protocol's epochs are told in the words of the old one."""
        try:
            return self._commit_in_transaction(request, topics, api_version)
        except StaleMemberEpochError as error:
            raise IllegalGenerationError(str(error)) from error

    def _commit_in_transaction(
        self, request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic], api_version: int
    ) -> Outcome:
        group_id = request.group_id
        check = self._check_transactional_commit(request, api_version)
        now_ms, longest = self.shard.clock.now_ms(), self.shard.config.offset_metadata_max_bytes
        most = self.shard.largest_batch_bytes // LEAST_RECORD_BYTES
        records: list[CoordinatorRecord] = []
        response = TxnOffsetCommitResponse()
        for topic in topics:
            name = topic.name
            answer = TxnOffsetCommitResponseTopic(name=name)
            response.topics.append(answer)
            for each in topic.partitions:
                index, note = each.partition_index, each.committed_metadata
                row = TxnOffsetCommitResponsePartition(partition_index=index)
                answer.partitions.append(row)
                if note and _is_too_long(note, longest):
                    row.error_code = OffsetMetadataTooLargeError.code
                    continue
                if check is not None:
                    self._check_partition(check, name, index)
                if len(records) == most:
                    raise UnknownServerError(f"more than {most} offsets cannot be committed at once")
                offset, epoch = each.committed_offset, each.committed_leader_epoch
                records.append(
                    commit_record(group_id, name, index, offset, epoch, note, now_ms, NO_TIMESTAMP, UNKNOWN_TOPIC_ID)
                )
        self.counts.commits += len(records)
        return Outcome(records, response)

    def _check_transactional_commit(self, request: TxnOffsetCommitRequest, api_version: int) -> CommitCheck | None:
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation_id < 0:
                return None
            raise IllegalGenerationError(f"there is no group {request.group_id!r}")
        return group.check_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            is_transactional=True,
            api_version=api_version,
        )

    def _check_partition(self, check: CommitCheck, topic: str, partition: int) -> None:
        """The request names no ids, but who is behind is judged by them."""
        known = self.shard.image.topics.get(topic)
        if known is None:
            raise IllegalGenerationError(f"the member is behind, and there is no topic {topic}")
        check(topic, known.id, partition)

    # OffsetFetch

    def fetch(
        self, asked: OffsetFetchRequestGroup, api_version: int, *, requires_stable: bool
    ) -> OffsetFetchResponseGroup:
        """With `requires_stable` what has been written counts, and the answer has to wait until it is committed.

        Otherwise what is committed now is shown, and the answer need not wait. Topics have names here, and ids where
        the request came with them. A group that does not exist has no offsets.
        """
        group = self.groups.get(asked.group_id)
        try:
            if group is None:
                raise GroupIdNotFoundError(f"there is no group {asked.group_id!r}")
            group.check_fetch(asked.member_id, asked.member_epoch, api_version)
        except GroupIdNotFoundError:
            table: Mapping[str, Mapping[int, CommittedOffset]] = {}
        else:
            table = self.table.of_group(asked.group_id) if requires_stable else self._committed(asked.group_id)
        waits_for = frozenset(self.pending.places(asked.group_id)) if requires_stable else frozenset()
        answer = OffsetFetchResponseGroup(group_id=asked.group_id)
        if asked.topics is None:
            for name, partitions in table.items():
                rows = [
                    unstable(index) if (name, index) in waits_for else shown(index, entry)
                    for index, entry in partitions.items()
                ]
                answer.topics.append(OffsetFetchResponseTopics(name=name, partitions=rows))
        else:
            for topic in asked.topics:
                answer.topics.append(_fetched(topic, table.get(topic.name, {}), waits_for))
        return answer

    def _committed(self, group_id: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """What the high watermark has passed."""
        table = self.table.of_group(group_id)
        if not self._unsettled:
            return table
        self._unsettled.settle()
        changed = list(self._unsettled.places(group_id))
        if not changed:
            return table
        committed = {topic: dict(partitions) for topic, partitions in table.items()}
        for (topic, partition), before in changed:
            if before is None:
                committed.get(topic, {}).pop(partition, None)
            else:
                committed.setdefault(topic, {})[partition] = before
        return {topic: partitions for topic, partitions in committed.items() if partitions}

    # Deleting

    def delete(self, group_id: str, topics: list[OffsetDeleteRequestTopic]) -> Outcome:
        """OffsetDelete, of topics that exist, with partitions that exist."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFoundError(f"there is no group {group_id!r}")
        group.check_offset_delete()
        records: list[CoordinatorRecord] = []
        response = OffsetDeleteResponse()
        for topic in topics:
            answer = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(answer)
            code = GroupSubscribedToTopicError.code if group.is_subscribed_to(topic.name) else 0
            for each in topic.partitions:
                index = each.partition_index
                answer.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if not code and self._has_any(group_id, topic.name, index):
                    records.append(tombstone(group_id, topic.name, index))
        self.counts.deletions += len(records)
        return Outcome(records, response)

    def _has_any(self, group_id: str, topic: str, partition: int) -> bool:
        has_committed = self.table.get(group_id, topic, partition) is not None
        return has_committed or self.pending.has(group_id, (topic, partition))

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """What deletes all offsets of a group, those of open transactions too; for DeleteGroups."""
        places = {
            (topic, partition): None
            for topic, partitions in self.table.of_group(group_id).items()
            for partition in partitions
        }
        places.update(dict.fromkeys(self.pending.places(group_id)))
        return [tombstone(group_id, *place) for place in places]

    def _delete_of_topic(self, topic: TopicImage) -> None:
        """In as many batches as it takes; tried again while the log refuses."""
        topic_id = topic.id
        timer = ("offsets of a deleted topic", topic_id)

        def delete() -> Outcome | None:
            batch = TombstoneBatch()
            seen: set[tuple[str, int]] = set()
            for source in (self.table, self.pending):
                for group_id, partition, entry in source.of_topic(topic.name):
                    if entry.is_of(topic_id) and (group_id, partition) not in seen:
                        seen.add((group_id, partition))
                        batch.add(group_id, topic.name, partition)
                        if batch.is_full:
                            return Outcome(batch.records, then=go_on)
            return Outcome(batch.records) if batch.records else None

        def go_on(error: TailraceError | None) -> None:
            if error is None:
                self.shard.timers.schedule(timer, 0, delete)

        self.shard.timers.schedule(timer, 0, delete)


def _fetched(
    topic: OffsetFetchRequestTopics, partitions: Mapping[int, CommittedOffset], waits_for: frozenset[tuple[str, int]]
) -> OffsetFetchResponseTopics:
    rows = []
    for index in topic.partition_indexes:
        entry = partitions.get(index)
        if waits_for and (topic.name, index) in waits_for:
            rows.append(unstable(index))
        elif entry is None or not entry.is_of(topic.topic_id):
            rows.append(nothing(index))
        else:
            rows.append(shown(index, entry))
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=rows)


def _is_too_long(note: str, longest: int) -> bool:
    """Kafka counts UTF-16 units, whatever the setting's name says."""
    length = len(note)
    if length > longest:
        return True
    return 2 * length > longest and length + sum(char > "\uffff" for char in note) > longest


def _as_long(value: int) -> int:
    """As Java adds: a retention that ends after the end of time wraps around."""
    return (value - _SMALLEST_LONG) % (1 << 64) + _SMALLEST_LONG
