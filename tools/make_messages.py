"""Write the declarations of `tailrace.protocol.messages` and `.records` from the message schemas of Apache Kafka.

    python tools/make_messages.py [--jars DIR] [--out DIR]

Kafka describes its messages in JSON files, which its jars carry. Taken from them are the facts of the wire: names,
types, versions, tags, defaults. The jars are those of `benchmarks/peers/kafka`. The result is checked in; run this when
another version of Kafka becomes the one to be compatible with, then look at the difference.
"""

from __future__ import annotations

import argparse
import json
import keyword
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tailrace.protocol.schema import version_range

KAFKA = "4.3.1"
OUT = Path(__file__).resolve().parents[1] / "src" / "tailrace" / "protocol"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
DEFAULT_JARS = Path(os.environ.get("KAFKA_JARS") or CACHE / f"kafka-{KAFKA}")
NOTE = f"# Made by tools/make_messages.py from the schemas of Apache Kafka {KAFKA}. Change that, not this."

# Which module of `records/` declares which record.
RECORD_MODULES = {
    "brokers": (
        "Brokers and controllers of the cluster",
        "RegisterBrokerRecord UnregisterBrokerRecord FenceBrokerRecord UnfenceBrokerRecord "
        "BrokerRegistrationChangeRecord RegisterControllerRecord",
    ),
    "topics": (
        "Topics and partitions",
        "TopicRecord RemoveTopicRecord PartitionRecord PartitionChangeRecord ClearElrRecord",
    ),
    "settings": (
        "Configuration, quotas and features",
        "ConfigRecord ClientQuotaRecord FeatureLevelRecord",
    ),
    "security": (
        "Access control, credentials and tokens",
        "AccessControlEntryRecord RemoveAccessControlEntryRecord UserScramCredentialRecord "
        "RemoveUserScramCredentialRecord DelegationTokenRecord RemoveDelegationTokenRecord",
    ),
    "ledger": (
        "The metadata log's own affairs: blocks of producer ids, transactions of records",
        "ProducerIdsRecord NoOpRecord BeginTransactionRecord EndTransactionRecord AbortTransactionRecord "
        "ZkMigrationStateRecord",
    ),
    "control": (
        "Values of the control records of a quorum's log and of its snapshots",
        "LeaderChangeMessage SnapshotHeaderRecord SnapshotFooterRecord KRaftVersionRecord VotersRecord",
    ),
    "group_offsets": (
        "Committed offsets, in the group coordinator's log",
        "LegacyOffsetCommitKey LegacyOffsetCommitValue OffsetCommitKey OffsetCommitValue",
    ),
    "classic_groups": ("Groups of the classic protocol", "GroupMetadataKey GroupMetadataValue"),
    "consumer_groups": (
        "Groups of the consumer protocol",
        "ConsumerGroupMetadataKey ConsumerGroupMetadataValue ConsumerGroupPartitionMetadataKey "
        "ConsumerGroupPartitionMetadataValue ConsumerGroupMemberMetadataKey ConsumerGroupMemberMetadataValue "
        "ConsumerGroupTargetAssignmentMetadataKey ConsumerGroupTargetAssignmentMetadataValue "
        "ConsumerGroupTargetAssignmentMemberKey ConsumerGroupTargetAssignmentMemberValue "
        "ConsumerGroupCurrentMemberAssignmentKey ConsumerGroupCurrentMemberAssignmentValue "
        "ConsumerGroupRegularExpressionKey ConsumerGroupRegularExpressionValue",
    ),
    "share_groups": (
        "Share groups",
        "ShareGroupMetadataKey ShareGroupMetadataValue ShareGroupMemberMetadataKey ShareGroupMemberMetadataValue "
        "ShareGroupTargetAssignmentMetadataKey ShareGroupTargetAssignmentMetadataValue "
        "ShareGroupTargetAssignmentMemberKey ShareGroupTargetAssignmentMemberValue "
        "ShareGroupCurrentMemberAssignmentKey ShareGroupCurrentMemberAssignmentValue "
        "ShareGroupStatePartitionMetadataKey ShareGroupStatePartitionMetadataValue",
    ),
    "streams_groups": (
        "Streams groups",
        "StreamsGroupMetadataKey StreamsGroupMetadataValue StreamsGroupMemberMetadataKey "
        "StreamsGroupMemberMetadataValue StreamsGroupTargetAssignmentMetadataKey "
        "StreamsGroupTargetAssignmentMetadataValue StreamsGroupTargetAssignmentMemberKey "
        "StreamsGroupTargetAssignmentMemberValue StreamsGroupCurrentMemberAssignmentKey "
        "StreamsGroupCurrentMemberAssignmentValue StreamsGroupTopologyKey StreamsGroupTopologyValue",
    ),
    "transactions": (
        "Transactional ids, in the transaction coordinator's log",
        "TransactionLogKey TransactionLogValue",
    ),
    "share_state": (
        "Positions of share groups, in the share coordinator's log",
        "ShareSnapshotKey ShareSnapshotValue ShareUpdateKey ShareUpdateValue",
    ),
    "consumer_protocol": (
        "What consumers of the classic protocol tell each other through the coordinator",
        "ConsumerProtocolSubscription ConsumerProtocolAssignment",
    ),
}
SCALARS = {
    "bool": ("BOOL", "bool"),
    "int8": ("INT8", "int"),
    "int16": ("INT16", "int"),
    "int32": ("INT32", "int"),
    "int64": ("INT64", "int"),
    "uint16": ("UINT16", "int"),
    "uint32": ("UINT32", "int"),
    "float64": ("FLOAT64", "float"),
    "uuid": ("UUID", "bytes"),
    "string": ("STRING", "str"),
    "bytes": ("BYTES", "bytes"),
    "records": ("RECORDS", "Payload"),
}
Schema = dict[str, Any]


def read_schemas(jars: Path) -> dict[str, Schema]:
    """By name: every message that has a version."""
    schemas = {}
    for jar in sorted(jars.glob("kafka-*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/(message|metadata)/\w+\.json", name):
                    schema = json.loads(re.sub(r"(?m)^\s*//.*$|(?<=[\s,{\[])//.*$", "", archive.read(name).decode()))
                    if schema["validVersions"] != "none":
                        schemas[schema["name"]] = schema
    return schemas


def snake(name: str) -> str:
    """`KRaftVersionFeature` → `kraft_version_feature`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name.replace("KRaft", "Kraft"))
    plain = words.lower()
    return f"{plain}_" if keyword.iskeyword(plain) else plain


class MessageText:
    """The class of one message after those of its structs, all whose names are in `clashing` with `prefix` before."""

    def __init__(self, schema: Schema, base: str, prefix: str, clashing: set[str]) -> None:
        self._prefix = prefix
        self._clashing = clashing
        self.used = {base, "field"}
        self._shared = {struct["name"]: struct for struct in schema.get("commonStructs", [])}
        self._written: set[str] = set()
        self._structs: list[str] = []
        self._valid = version_range(schema["validVersions"])
        fields = list(self._fields(schema["fields"]))
        flexible = schema.get("flexibleVersions", "none")
        options = [f"key={schema['apiKey']}"] if "apiKey" in schema else []
        options.append(f'versions="{schema["validVersions"]}"')
        options += [f'flexible="{flexible}"'] if flexible != "none" else []
        message = class_text(f"{schema['name']}({base}, {', '.join(options)})", fields)
        self.text = "\n\n\n".join([*self._structs, message])

    def _fields(self, fields: list[Schema]) -> Iterator[str]:
        for declared in fields:
            versions = declared.get("versions") or declared["taggedVersions"]
            if self._exists(versions):
                yield self._field(declared, versions)

    def _exists(self, versions: str) -> bool:
        bounds = version_range(versions)
        assert bounds is not None
        assert self._valid is not None
        return bounds[0] <= self._valid[1] and self._valid[0] <= bounds[1]

    def _field(self, declared: Schema, versions: str) -> str:
        kind, annotation = self._type(declared)
        arguments = [kind] if versions == "0+" else [kind, f'"{versions}"']
        nullable = declared.get("nullableVersions", "none")
        is_tagged_struct = "tag" in declared and kind.isidentifier() and kind in self._written
        if nullable != "none":
            arguments.append(f'nullable="{nullable}"')
        if (nullable != "none" or is_tagged_struct) and annotation != "Payload":
            annotation += " | None"
        if "default" in declared and not (is_tagged_struct and declared["default"] == "null"):
            default = default_text(declared["default"], declared["type"])
            arguments += [f"default={default}"] if default not in ("0", "False", '""') else []
        if "tag" in declared:
            arguments.append(f"tag={declared['tag']}")
            if declared["taggedVersions"] != versions:
                arguments.append(f'tagged="{declared["taggedVersions"]}"')
        if declared.get("ignorable"):
            arguments.append("ignorable=True")
        if declared.get("flexibleVersions") == "none":
            arguments.append("always_legacy=True")
        return f"{snake(declared['name'])}: {annotation} = field({', '.join(arguments)})"

    def _type(self, declared: Schema) -> tuple[str, str]:
        """The type as it is declared, and its annotation."""
        name: str = declared["type"]
        if name.startswith("[]"):
            self.used.add("array_of")
            kind, annotation = self._type({**declared, "type": name[2:]})
            return f"array_of({kind})", f"list[{annotation}]"
        if name in SCALARS:
            kind, annotation = ("VIEW", "Payload") if declared.get("zeroCopy") else SCALARS[name]
            self.used |= {kind, annotation} - {"bool", "int", "float", "bytes", "str"}
            return kind, annotation
        unique = self._prefix + name if name in self._clashing else name
        if unique not in self._written:
            self._written.add(unique)
            self.used.add("Struct")
            fields = declared.get("fields") or self._shared[name]["fields"]
            self._structs.append(class_text(f"{unique}(Struct)", list(self._fields(fields))))
        return unique, unique


def default_text(default: Any, kind: str) -> str:
    if default in ("null", None):
        return "None"
    if kind == "bool":
        return str(str(default).lower() == "true")
    if kind in ("string", "bytes"):
        return json.dumps(default)
    if kind == "float64":
        return repr(float(default))
    number = int(str(default), 0)
    return hex(number).upper().replace("X", "x") if str(default).startswith("0x") else str(number)


def class_text(head: str, lines: list[str]) -> str:
    return f"class {head}:\n" + "\n".join(f"    {line}" for line in lines or ["pass"])


def struct_names(schema: Schema) -> set[str]:
    inner = [*schema.get("commonStructs", []), *schema.get("fields", [])]
    own = {schema["type"].removeprefix("[]")} if "type" in schema and schema.get("fields") else set()
    return own.union(*map(struct_names, inner), (struct["name"] for struct in schema.get("commonStructs", [])))


def module_text(title: str, base_and_prefix: list[tuple[str, str]], schemas: list[Schema]) -> str:
    counts = Counter(name for schema in schemas for name in struct_names(schema))
    clashing = {name for name, count in counts.items() if count > 1} | {schema["name"] for schema in schemas}
    messages = [
        MessageText(schema, base, prefix, clashing)
        for schema, (base, prefix) in zip(schemas, base_and_prefix, strict=True)
    ]
    used = set().union(*(message.used for message in messages))
    kinds = sorted(used & {"Request", "Response", "Record", "RequestHead", "ResponseHead", "Struct"})
    types = sorted(used - set(kinds), key=lambda name: (not name.isupper(), name))
    return "\n".join(
        [
            f'"""{title}."""\n',
            NOTE,
            "\nfrom __future__ import annotations\n",
            f"from tailrace.protocol.message import {', '.join(kinds)}",
            f"from tailrace.protocol.schema import {', '.join(types)}\n\n",
            "\n\n\n".join(message.text for message in messages) + "\n",
        ]
    )


def modules(schemas: dict[str, Schema]) -> Iterator[tuple[str, str]]:
    """(path below the package, text) of everything there is to write."""
    for name, request in sorted(schemas.items()):
        if request["type"] == "request":
            api = name.removesuffix("Request")
            title = f"{api}, api key {request['apiKey']}"
            kinds = [("Request", "Request"), ("Response", "Response")]
            yield f"messages/{snake(api)}.py", module_text(title, kinds, [request, schemas[f"{api}Response"]])
    headers = [schemas["RequestHeader"], schemas["ResponseHeader"]]
    title = "What stands before every request and every response"
    yield "headers.py", module_text(title, [("RequestHead", ""), ("ResponseHead", "")], headers)
    for module, (title, names) in RECORD_MODULES.items():
        kinds = [("Record", re.sub("Record$|Message$", "", name)) for name in names.split()]
        yield f"records/{module}.py", module_text(title, kinds, [schemas[name] for name in names.split()])


def write_modules(jars: Path, out: Path) -> list[Path]:
    written = []
    for path, text in modules(read_schemas(jars)):
        written.append(out / path)
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_text(text)
    ruff, config = str(Path(sys.executable).with_name("ruff")), str(OUT.parents[2] / "pyproject.toml")
    for command in (("check", "--fix", "--select", "I"), ("format",)):
        subprocess.run([ruff, *command, "--quiet", "--config", config, *map(str, written)], check=True)
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description="Declarations of the protocol's messages from Kafka's schemas.")
    parser.add_argument("--jars", type=Path, default=DEFAULT_JARS, help="the folder with Kafka's jars")
    parser.add_argument("--out", type=Path, default=OUT, help="where the package protocol is")
    args = parser.parse_args()
    if not any(args.jars.glob("kafka-clients-*.jar")):
        parser.error(f"no jars of Kafka in {args.jars}; benchmarks/peers/kafka fetches them when it first runs")
    print(f"{len(write_modules(args.jars, args.out))} modules written below {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
