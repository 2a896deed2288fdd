"""Kafka's own command line tools, on the Java client: what an operator types works, and says what it says of Kafka."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from client_driver import CODECS, Message
from client_servers import Server

from support.kafka.tools import TOOLS, KafkaComplaintError, run_tool

pytestmark = [pytest.mark.compat, pytest.mark.long, pytest.mark.usefixtures("kafka_jars")]

T0 = 1_700_000_000_000


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_and_consumer(tool: Any, topic: str, codec: str, helper: Any) -> None:
    sent = [(f"key {n}", f"value {n} größer {'y' * 50}") for n in range(200)]
    text = "".join(f"{key}|{value}\n" for key, value in sent)
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=|")
    tool("ConsoleProducer", "--topic", topic, "--compression-codec", codec, *keys, stdin=text)
    assert [(each.key, each.value) for each in helper.read(topic, 200)] == [
        (key.encode(), value.encode()) for key, value in sent
    ]
    printed = tool(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--partition", "0", "--offset", "50", "--max-messages", "150", "--timeout-ms", "20000"),
        *("--formatter-property", "print.offset=true", "--formatter-property", "print.key=true"),
    )
    assert printed.splitlines()[:150] == [f"Offset:{n}\t{sent[n][0]}\t{sent[n][1]}" for n in range(50, 200)]


def test_verifiable_producer(tool: Any, topic: str, helper: Any) -> None:
    output = tool("VerifiableProducer", "--topic", topic, "--max-messages", "3000", "--acks", "-1")
    said = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    acknowledged = [each for each in said if each["name"] == "producer_send_success"]
    assert sorted(each["offset"] for each in acknowledged) == list(range(3000))
    assert said[-1]["name"] == "tool_data"
    assert (said[-1]["sent"], said[-1]["acked"]) == (3000, 3000)
    values = {each["offset"]: each["value"].encode() for each in acknowledged}
    assert {each.offset: each.value for each in helper.read(topic, 3000)} == values


def test_idempotent_performance_run(tool: Any, topic: str, helper: Any) -> None:
    output = tool(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "enable.idempotence=true", "--command-property", "acks=all"),
    )
    assert output.splitlines()[-1].startswith("20000 records sent")
    assert helper.bounds(topic) == (0, 20000)


def test_offsets_are_told(tool: Any, name: str, helper: Any) -> None:
    helper.create_topic(name, partitions=2)
    helper.produce(name, [Message(b"%d" % n, None, T0 + 10 * n) for n in range(100)])
    helper.delete_records(name, 7)

    def told(*arguments: str) -> list[str]:
        return tool("GetOffsetShell", "--topic", name, *arguments).split()

    assert told() == [f"{name}:0:100", f"{name}:1:0"]
    assert told("--time", "earliest") == [f"{name}:0:7", f"{name}:1:0"]
    assert told("--time", str(T0 + 405), "--partitions", "0") == [f"{name}:0:41"]
    assert told("--time", "max-timestamp", "--partitions", "0") == [f"{name}:0:99"]


def test_records_are_deleted(tool: Any, topic: str, helper: Any, tmp_path: Path) -> None:
    helper.produce(topic, [Message(b"%d" % n) for n in range(10)])
    wanted = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    output = tool("DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "offsets.json"))
    assert f"partition: {topic}-0\tlow_watermark: 6" in output
    assert helper.bounds(topic) == (6, 10)


# -- topics and settings ---------------------------------------------------------------------------------------------


def test_topic_command(tool: Any, name: str, server: Server) -> None:
    created = tool("TopicCommand", "--create", "--topic", name, "--partitions", "2", "--config", "retention.ms=60000")
    assert created.strip() == f"Created topic {name}."
    assert name in tool("TopicCommand", "--list").split()
    tool("TopicCommand", "--alter", "--topic", name, "--partitions", "4")
    head, *partitions = tool("TopicCommand", "--describe", "--topic", name).strip("\n").splitlines()
    assert re.match(rf"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: 4\tReplicationFactor: 1\tConfigs: ", head)
    assert "retention.ms=60000" in head.rpartition("Configs: ")[2].split(",")
    found = [dict(field.split(": ", 1) for field in line.split("\t") if field) for line in partitions]
    assert [each["Partition"] for each in found] == ["0", "1", "2", "3"]
    assert {(each["Leader"], each["Replicas"], each["Isr"]) for each in found} == {(found[0]["Leader"],) * 3}
    with pytest.raises(KafkaComplaintError, match=f"Topic '{name}' already exists"):
        tool("TopicCommand", "--create", "--topic", name)
    tool("TopicCommand", "--delete", "--topic", name)
    assert name not in tool("TopicCommand", "--list").split()


def test_config_command_on_a_topic(tool: Any, topic: str) -> None:
    def command(*arguments: str) -> str:
        return tool("kafka.admin.ConfigCommand", "--entity-type", "topics", "--entity-name", topic, *arguments)

    command("--alter", "--add-config", "cleanup.policy=[compact,delete],retention.ms=60000")
    described = command("--describe")
    assert "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=" in described
    assert "  retention.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=60000" in described
    command("--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in command("--describe")
    with pytest.raises(KafkaComplaintError, match=r"InvalidConfigurationException: .*(segment\.bytes)"):
        command("--alter", "--add-config", "segment.bytes=large")
    assert "  segment.bytes=1073741824 " in command("--describe", "--all")


def test_config_command_on_brokers(tool: Any, helper: Any) -> None:
    broker = str(helper.broker_id())

    def command(*arguments: str) -> str:
        return tool("kafka.admin.ConfigCommand", "--entity-type", "brokers", *arguments)

    command("--entity-default", "--alter", "--add-config", "log.cleaner.backoff.ms=12345")
    try:
        assert "log.cleaner.backoff.ms=12345" in command("--entity-default", "--describe")
        deadline = time.monotonic() + 10
        while "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.backoff.ms=12345" not in command(
            "--entity-name", broker, "--describe", "--all"
        ):
            assert time.monotonic() < deadline
    finally:
        command("--entity-default", "--alter", "--delete-config", "log.cleaner.backoff.ms")
    with pytest.raises(KafkaComplaintError, match=r"log\.dirs"):
        command("--entity-name", broker, "--alter", "--add-config", "log.dirs=elsewhere")


# -- the cluster -----------------------------------------------------------------------------------------------------


def test_log_dirs_command(tool: Any, topic: str, helper: Any) -> None:
    helper.produce(topic, [Message(bytes(1000))])
    output = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    ((directory,),) = [each["logDirs"] for each in json.loads(output.splitlines()[-1])["brokers"]]
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert 1000 < partition["size"] < 1200
    assert (partition["offsetLag"], partition["isFuture"]) == (0, False)


def test_metadata_quorum_command(tool: Any) -> None:
    status = dict(
        line.split(":", 1) for line in tool("MetadataQuorumCommand", "describe", "--status").strip().splitlines()
    )
    status = {key: value.strip() for key, value in status.items()}
    assert len(status["ClusterId"]) == 22
    assert int(status["LeaderEpoch"]) >= 1
    assert int(status["HighWatermark"]) > 0
    assert status["MaxFollowerLag"] == "0"
    (voter,) = json.loads(status["CurrentVoters"])
    assert str(voter["id"]) == status["LeaderId"]
    assert voter["endpoints"][0].startswith("CONTROLLER://")
    _, leader = tool("MetadataQuorumCommand", "describe", "--replication").strip().splitlines()
    assert leader.split()[0] == status["LeaderId"]
    assert leader.split()[-1] == "Leader"


def test_feature_command(tool: Any) -> None:
    found = {
        fields[1]: fields
        for fields in (line.split() for line in tool("FeatureCommand", "describe").splitlines())
        if fields and fields[0] == "Feature:"
    }
    version = found["metadata.version"]
    assert version[version.index("FinalizedVersionLevel:") + 1] == "4.3-IV0"
    for feature in ("kraft.version", "group.version", "transaction.version", "share.version", "streams.version"):
        assert feature in found


def test_feature_command_on_eligible_leader_replicas(tool: Any) -> None:
    feature = "eligible.leader.replicas.version"

    def finalized() -> str:
        lines = map(str.split, tool("FeatureCommand", "describe").splitlines())
        (fields,) = [fields for fields in lines if feature in fields]
        found = dict(zip(fields[::2], fields[1::2], strict=True))
        assert (found["SupportedMinVersion:"], found["SupportedMaxVersion:"]) == ("0", "1")
        level: str = found["FinalizedVersionLevel:"]
        return level

    def command(*arguments: str) -> str:
        output: str = tool("FeatureCommand", *arguments)
        return output.strip()

    assert finalized() == "1"
    tried = command("downgrade", "--feature", f"{feature}=0", "--dry-run")
    assert tried == f"{feature} can be downgraded to 0."
    with pytest.raises(KafkaComplaintError, match=f"Could not upgrade {feature} to 2"):
        command("upgrade", "--feature", f"{feature}=2")
    assert finalized() == "1"
    try:
        assert command("downgrade", "--feature", f"{feature}=0") == f"{feature} was downgraded to 0."
        assert finalized() == "0"
    finally:
        assert command("upgrade", "--feature", f"{feature}=1") == f"{feature} was upgraded to 1."
    assert finalized() == "1"


def test_config_command_shows_the_minimum_of_all_brokers(tool: Any, helper: Any) -> None:
    """A dynamic default, which must be there in a cluster with eligible leader replicas."""
    broker = str(helper.broker_id())

    def command(*arguments: str) -> str:
        output: str = tool("kafka.admin.ConfigCommand", "--entity-type", "brokers", *arguments)
        return output

    known = "  min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1"
    assert f"{known}}}" in command("--entity-default", "--describe").splitlines()
    of_broker = command("--entity-name", broker, "--describe", "--all").splitlines()
    assert f"{known}, DEFAULT_CONFIG:min.insync.replicas=1}}" in of_broker
    with pytest.raises(KafkaComplaintError, match=r"Cluster-level .* cannot be removed while ELR"):
        command("--entity-default", "--alter", "--delete-config", "min.insync.replicas")
    with pytest.raises(KafkaComplaintError, match=r"Broker-level .* cannot be altered while ELR"):
        command("--entity-name", broker, "--alter", "--add-config", "min.insync.replicas=1")


def test_reassign_partitions_command(tool: Any, name: str, helper: Any, tmp_path: Path) -> None:
    """With one broker, nothing moves."""
    helper.create_topic(name, partitions=2)
    broker = helper.broker_id()

    def command(action: str, *arguments: str) -> list[str]:
        output = tool("reassign.ReassignPartitionsCommand", action, *arguments)
        return [line for line in output.splitlines() if line]

    def written(file: str, content: Any) -> str:
        (tmp_path / file).write_text(json.dumps(content))
        return str(tmp_path / file)

    topics = written("topics.json", {"version": 1, "topics": [{"topic": name}]})
    generated = command("--generate", "--topics-to-move-json-file", topics, "--broker-list", str(broker))
    assert generated[::2] == ["Current partition replica assignment", "Proposed partition reassignment configuration"]
    current, proposed = map(json.loads, generated[1::2])
    assignment = [(0, [broker]), (1, [broker])]
    for found in (current, proposed):
        assert [(each["partition"], each["replicas"]) for each in found["partitions"]] == assignment

    plan = "--reassignment-json-file", written("plan.json", proposed)
    executed = command("--execute", *plan)
    assert json.loads(executed[1]) == current
    assert executed[-1] == f"Successfully started partition reassignments for {name}-0,{name}-1"
    assert command("--verify", *plan)[:3] == [
        "Status of partition reassignment:",
        f"Reassignment of partition {name}-0 is completed.",
        f"Reassignment of partition {name}-1 is completed.",
    ]
    assert command("--list") == ["No partition reassignments found."]
    assert command("--cancel", *plan)[0] == "None of the specified partition reassignments are active."

    proposed["partitions"][0] |= {"replicas": [broker + 6], "log_dirs": ["any"]}
    elsewhere = "--reassignment-json-file", written("elsewhere.json", proposed)
    with pytest.raises(KafkaComplaintError, match=f"Unknown broker id {broker + 6}"):
        command("--execute", *elsewhere)


def test_cluster_tool(server: Server, helper: Any) -> None:
    cluster_id, _ = helper.cluster()
    output, _ = run_tool(f"{TOOLS}ClusterTool", "cluster-id", "--bootstrap-server", server.address)
    assert output.strip() == f"Cluster ID: {cluster_id}"


def test_broker_api_versions_command(tool: Any) -> None:
    output = tool("BrokerApiVersionsCommand")
    versions = dict(re.findall(r"^\t(\w+)\(\d+\): (.+?) \[usable: \d+\],?$", output, re.MULTILINE))
    assert "ERROR" not in output
    assert versions["Produce"] == "0 to 13"
    assert versions["Fetch"] == "4 to 18"
    assert versions["ApiVersions"] == "0 to 4"
    assert versions["DescribeTopicPartitions"] == "0"


def test_leader_election_command(tool: Any, topic: str) -> None:
    output = tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in output
