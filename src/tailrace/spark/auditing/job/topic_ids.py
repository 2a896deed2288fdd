"""Rule: partitions of one topic in one log directory have the same topic id.

Of logs that were closed: where a topic is deleted and made anew, a broker at work has folders of both for a moment.
Replicas of one partition on different brokers are compared when they are listed (`job.listing`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tailrace.spark.auditing.finding import Finding
from tailrace.spark.auditing.job.places import Folder
from tailrace.spark.auditing.rules import METADATA
from tailrace.storage import names


def check_topic_ids(folders: Iterable[Folder]) -> list[Finding]:
    topics: dict[tuple[str, str], list[Folder]] = defaultdict(list)
    for folder in folders:
        if folder.is_closed and folder.topic_id is not None:
            topics[folder.log_dir, folder.partition.topic].append(folder)
    return [finding for of_one in topics.values() for finding in _others(of_one)]


def _others(folders: list[Folder]) -> Iterable[Finding]:
    """Those that differ from most; where as many have either, from the first."""
    ((most, _),) = Counter(folder.topic_id for folder in folders).most_common(1)
    example = next(folder for folder in folders if folder.topic_id == most)
    for folder in folders:
        if folder.topic_id != most:
            words = f"is of topic id {folder.topic_id}, but {example.path} of the same topic is of {most}"
            file = names.join(folder.path, names.PARTITION_METADATA)
            yield Finding(file, str(folder.partition), None, METADATA, words)
