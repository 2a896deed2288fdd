"""Settings of how topics are made, and of what the broker asks before it makes or changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tailrace.config.table import MAX_INT, Effect, boolean, class_name, key, text_list, whole

REFUSED: Final = Effect.REFUSED


@dataclass(frozen=True)
class TopicCreationConfig:
    alter_config_policy_class_name: str | None = key(
        None, class_name, "the Java class that may refuse changes of settings", effect=REFUSED
    )
    auto_create_topics_enable: bool = key(True, boolean, "create a topic when a client asks for its metadata")
    config_providers: tuple[str, ...] = key(
        (), text_list, "Java classes that look up values of settings elsewhere", effect=REFUSED
    )
    create_topic_policy_class_name: str | None = key(
        None, class_name, "the Java class that may refuse topics", effect=REFUSED
    )
    default_replication_factor: int = key(
        1, whole(1, MAX_INT), "replicas of a topic that is created without a number of its own"
    )
    delete_topic_enable: bool = key(True, boolean, "let topics be deleted")
    num_partitions: int = key(1, whole(1, MAX_INT), "partitions of a topic that is created without a number of its own")
