"""Kafka's own tools as judges of our files: run DumpLogSegments and turn what it prints into values.

`dump_log_segments(paths)` starts one Java machine for all paths and returns one `FileDump` per path. The tool exits 0
even where a file is corrupt, so what it says is the verdict: a batch with `isvalid: false`, a mismatch between an index
and its log, bytes it could not read, an exception or any line this module does not know raises `KafkaComplaintError`.

Field names are the tool's own (`baseOffset`, `compresscodec`, `headerKeys`, …), so that a dump can be compared with
what a person sees on the console. Keys and payloads are told apart by the sizes printed before them; a text that is
not UTF-8 on disk comes back with replacement characters, and only its size can be trusted.

Only the standard library is needed, so that scripts outside the test run can use it too.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

KAFKA_SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "peers" / "kafka"
TOOLS = "org.apache.kafka.tools."
DUMP_TOOL = TOOLS + "DumpLogSegments"
ARGUMENT_BYTES = 100_000  # Linux takes at most 128 KiB in one argument
TXN_ENTRY_BYTES = 34  # the tool is silent about a last entry that is cut
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime", "NoTimestampType")

Fields = dict[str, Any]


class KafkaComplaintError(AssertionError):
    """Kafka's tool found something wrong with a file, or said something this module does not understand."""


@dataclass
class FileDump:
    """What the tool says of one file. `batches` is filled for .log files, `entries` for all others.

    A batch is the fields of its line plus `records`, a list of record fields. `gaps` are pairs of record offsets with
    offsets missing between them (legal where compaction has been), `trailing_bytes` what follows the last batch of a
    log, `index_complaints` lines about an index that disagrees with its log, and `passed_sanity_check` is told only
    where that check was asked for.
    """

    path: Path
    batches: list[Fields] = field(default_factory=list)
    entries: list[Fields] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    trailing_bytes: int = 0
    index_complaints: list[str] = field(default_factory=list)
    passed_sanity_check: bool = False

    @property
    def records(self) -> list[Fields]:
        return [record for batch in self.batches for record in batch["records"]]


# -- running ---------------------------------------------------------------------------------------------------------


def why_unavailable() -> str | None:
    """The reason why Kafka's tools cannot run here, or None."""
    if shutil.which("java") is None:
        return "Kafka's tools need Java, and there is no java on the PATH"
    if not (_jars() / "done").exists() and shutil.which("mvn") is None:
        return "Kafka's jars are not here yet, and there is no mvn on the PATH to fetch them"
    return None


def why_silent() -> str | None:
    """The reason why a broker cannot tell in its log what it does, or None."""
    if not (_jars() / "logging" / "done").exists() and shutil.which("mvn") is None:
        return "the jar with which Kafka writes its log is not here yet, and there is no mvn on the PATH to fetch it"
    return None


def _jars() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KAFKA_JARS") or Path(cache) / "kafka-4.3.1")


class ToolRun(NamedTuple):
    """What a tool has printed, and its exit code."""

    output: str
    errors: str
    exit_code: int


def run_tool(tool: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120) -> tuple[str, str]:
    """Run one of Kafka's tools by class name; its output and error text. A non-zero exit raises."""
    output, errors, exit_code = try_tool(tool, *arguments, stdin=stdin, timeout_s=timeout_s)
    if exit_code != 0:
        raise KafkaComplaintError(f"{tool} exited with {exit_code}:\n{output[-2000:]}\n{errors[-4000:]}")
    return output, errors


def try_tool(tool: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120) -> ToolRun:
    """The same, with any exit code."""
    done = subprocess.run(
        [str(KAFKA_SCRIPT), "tool", tool, *arguments],
        input=stdin.encode() if stdin is not None else b"",
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8"},
    )
    # Decoded by hand: text mode would turn a carriage return in a payload into a line break.
    return ToolRun(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.returncode)


def dump_log_segments(
    paths: Iterable[str | os.PathLike[str]],
    *,
    deep: bool = True,
    allow_gaps: bool = False,
    allow_trailing_bytes: bool = False,
    allow_index_complaints: bool = False,
) -> dict[Path, FileDump]:
    """Let Kafka read the files (.log, .index, .timeindex, .txnindex, .snapshot) and return its view of each.

    An index is judged against the log beside it, which therefore must be there. Names must be Kafka's (a base offset of
    20 digits and the suffix) and free of commas. The `allow_…` arguments name what is not to raise.
    """
    dumps = _dumped(paths, *(["--deep-iteration", "--print-data-log"] if deep else []))
    for dump in dumps.values():
        if dump.path.suffix == ".txnindex" and len(dump.entries) * TXN_ENTRY_BYTES != dump.path.stat().st_size:
            raise KafkaComplaintError(f"{dump.path}: {len(dump.entries)} entries are not the whole file")
        _judge(dump, allow_gaps, allow_trailing_bytes, allow_index_complaints)
    return dumps


def check_indexes(paths: Iterable[str | os.PathLike[str]], *, allow_index_complaints: bool = False) -> None:
    """Let Kafka check offset and time indexes: as a broker does at its start, and every entry against the log.

    Two runs. The first (`--index-sanity-check`) tells whether a broker would make the index anew.
    """
    wanted = [Path(path) for path in paths]
    for dump in _dumped(wanted, "--index-sanity-check").values():
        if not dump.passed_sanity_check and dump.path.stat().st_size:
            raise KafkaComplaintError(f"{dump.path}: not said to have passed the sanity check")
    for dump in _dumped(wanted, "--verify-index-only").values():
        _judge(dump, False, False, allow_index_complaints)


def _dumped(paths: Iterable[str | os.PathLike[str]], *options: str) -> dict[Path, FileDump]:
    """What the tool says with these options, of each of the files."""
    wanted = [Path(path) for path in paths]
    for path in wanted:
        if "," in str(path):
            raise ValueError(f"DumpLogSegments separates files by commas: {path}")
        if not path.is_file():
            raise FileNotFoundError(path)
    dumps: dict[Path, FileDump] = {}
    for names in _joined(wanted):
        output, errors = run_tool(DUMP_TOOL, *options, "--files", names)
        dumps |= parse_dump(output, errors)
    missing = [str(path) for path in wanted if path not in dumps]
    if missing:
        raise KafkaComplaintError(f"DumpLogSegments said nothing about {', '.join(missing)}")
    return dumps


def _joined(paths: Sequence[Path]) -> Iterator[str]:
    """The paths with commas between them, in texts that each fit into one argument."""
    names: list[str] = []
    for path in paths:
        if names and sum(len(os.fsencode(name)) + 1 for name in names) + len(os.fsencode(path)) > ARGUMENT_BYTES:
            yield ",".join(names)
            names = []
        names.append(str(path))
    if names:
        yield ",".join(names)


def _judge(dump: FileDump, allow_gaps: bool, allow_trailing_bytes: bool, allow_index_complaints: bool) -> None:
    for batch in dump.batches:
        if batch["isvalid"] is not True:
            raise KafkaComplaintError(f"{dump.path}: batch at position {batch['position']} is not valid: {batch}")
        for record in batch["records"]:
            if record.get("isValid", True) is not True:
                raise KafkaComplaintError(f"{dump.path}: record {record['offset']} is not valid: {record}")
    if dump.gaps and not allow_gaps:
        raise KafkaComplaintError(f"{dump.path}: offsets are missing between {dump.gaps}")
    if dump.trailing_bytes and not allow_trailing_bytes:
        raise KafkaComplaintError(f"{dump.path}: {dump.trailing_bytes} invalid bytes at the end")
    if dump.index_complaints and not allow_index_complaints:
        raise KafkaComplaintError(f"{dump.path}: " + "; ".join(dump.index_complaints))


# -- parsing ---------------------------------------------------------------------------------------------------------

_NOISE = re.compile(r"SLF4J(\(W\))?: |WARNING: |Picked up (_JAVA_OPTIONS|JAVA_TOOL_OPTIONS)")
_TRAILING = re.compile(r"Found (\d+) invalid bytes at the end of ")
_HEADING = re.compile(
    r"(?P<remark>Non-consecutive offsets in|Mismatches in|Found timestamp mismatch in|Found out of order timestamp in"
    r"|The following indexed offsets are not found in) :?(?P<path>.+)"
)
_GAP = re.compile(r"  (-?\d+) is followed by (-?\d+)$")
_INDEX_DETAIL = re.compile(r" *Index(ed)? (offset|timestamp): ")
_RECORD = re.compile(
    r"\| offset: (?P<offset>-?\d+) (?P<timestampType>\w+): (?P<timestamp>-?\d+)"
    r" keySize: (?P<keySize>-?\d+) valueSize: (?P<valueSize>-?\d+)"
)
_RECORD_V2 = re.compile(r" sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<headerKeys>.*?)\](?= |$)", re.DOTALL)
_RECORD_LEGACY = re.compile(r" isValid: (?P<isValid>\w+) crc: (?P<crc>-?\d+)\}?")
_MARKER = re.compile(r" endTxnMarker: (?P<endTxnMarker>\w+) coordinatorEpoch: (?P<coordinatorEpoch>-?\d+)")


def parse_dump(output: str, errors: str = "") -> dict[Path, FileDump]:
    """What DumpLogSegments printed, by file. Anything that is neither dump nor known remark raises."""
    dumps: dict[Path, FileDump] = {}
    current: FileDump | None = None
    for line in _logical_lines(output):
        if line.startswith("Dumping "):
            current = FileDump(Path(line.removeprefix("Dumping ")))
            dumps[current.path] = current
        elif current is None:
            if line and not _NOISE.match(line):
                raise KafkaComplaintError(f"DumpLogSegments said before any file: {line}")
        else:
            _parse_line(current, line)
    _parse_errors(errors, dumps)
    return dumps


def _logical_lines(output: str) -> list[str]:
    """Lines of the tool. A line break within a key or payload is taken back into its record, by the sizes stated."""
    lines: list[str] = []
    for line in output.split("\n"):
        if lines and lines[-1].startswith("| ") and _is_unfinished(lines[-1]):
            lines[-1] += "\n" + line
        else:
            lines.append(line)
    return lines


def _is_unfinished(line: str) -> bool:
    record, rest = _split_record(line)
    if "endTxnMarker" in record or "\ufffd" in rest:  # a replacement character hides how many bytes there were
        return False
    wanted = 0
    for size, label in ((record["keySize"], " key: "), (record["valueSize"], " payload: ")):
        wanted += len(label) + size if size >= 0 else 0
    return rest.startswith((" key: ", " payload: ")) and len(rest.encode()) < wanted


def _parse_line(dump: FileDump, line: str) -> None:
    trailing = _TRAILING.match(line)
    if not line or line.startswith("Log starting offset: ") or line.endswith(" is empty."):
        return
    if line == f"{dump.path} passed sanity check.":
        dump.passed_sanity_check = True
    elif line.startswith("| "):
        if not dump.batches:
            raise KafkaComplaintError(f"{dump.path}: a record before any batch: {line}")
        dump.batches[-1]["records"].append(parse_record(line))
    elif dump.path.suffix == ".log" and " isvalid: " in line:
        dump.batches.append({**parse_batch(line), "records": []})
    elif trailing:
        dump.trailing_bytes = int(trailing[1])
    elif dump.path.suffix != ".log" and re.match(r"\w+: -?\d", line):
        dump.entries.append(parse_fields(line))
    else:
        raise KafkaComplaintError(f"{dump.path}: {line}")


def parse_fields(line: str) -> Fields:
    """`name: value name: value …`, numbers and booleans as such, an absent optional as None."""
    words = line.split()
    if len(words) % 2 or not all(name.endswith(":") for name in words[::2]):
        raise KafkaComplaintError(f"not a line of fields: {line}")
    return {name[:-1]: _value(text) for name, text in zip(words[::2], words[1::2], strict=True)}


def parse_batch(line: str) -> Fields:
    """A batch line; its `CreateTime: n` (or LogAppendTime, NoTimestampType) becomes timestampType and maxTimestamp."""
    fields: Fields = {}
    for name, value in parse_fields(line).items():
        if name in TIMESTAMP_TYPES:
            fields |= {"timestampType": name, "maxTimestamp": value}
        else:
            fields[name] = value
    return fields


def _value(text: str) -> Any:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    optional = re.fullmatch(r"OptionalLong\[(-?\d+)\]", text)
    if optional:
        return int(optional[1])
    return {"true": True, "false": False, "null": None, "OptionalLong.empty": None}.get(text, text)


def parse_record(line: str) -> Fields:
    """One line of `--deep-iteration --print-data-log`, that begins with `| offset: `."""
    record, rest = _split_record(line)
    return record | _key_and_payload(rest, record, line)


def _split_record(line: str) -> tuple[Fields, str]:
    """The fields that have names and no spaces, and the rest of the line, with key and payload."""
    head = _RECORD.match(line)
    if head is None:
        raise KafkaComplaintError(f"not a record: {line}")
    record: Fields = {name: text if name == "timestampType" else int(text) for name, text in head.groupdict().items()}
    rest = line[head.end() :]
    for pattern in (_RECORD_V2, _RECORD_LEGACY, _MARKER):
        found = pattern.match(rest)
        if found:
            record |= {name: text if name == "headerKeys" else _value(text) for name, text in found.groupdict().items()}
            rest = rest[found.end() :]
    if "headerKeys" in record:
        record["headerKeys"] = record["headerKeys"].split(",") if record["headerKeys"] else []
    return record, rest


def _key_and_payload(rest: str, record: Fields, line: str) -> Fields:
    found: Fields = {}
    if rest.startswith(" key: ") and record["keySize"] >= 0:
        rest = rest.removeprefix(" key: ")
        found["key"], rest = _take(rest, record["keySize"], " payload: ")
    if rest.startswith(" payload: ") and record["valueSize"] >= 0:
        found["payload"], rest = rest.removeprefix(" payload: "), ""
    if rest:
        raise KafkaComplaintError(f"not understood: {rest!r} in {line!r}")
    return found


def _take(text: str, size_bytes: int, separator: str) -> tuple[str, str]:
    """The first `size_bytes` bytes of a text; where it was not UTF-8, what stands before the separator."""
    encoded = text.encode()
    head, tail = encoded[:size_bytes], encoded[size_bytes:]
    if not tail or tail.startswith(separator.encode()):
        return head.decode(), tail.decode()
    before, found, after = text.partition(separator)
    return before, found + after


def _parse_errors(errors: str, dumps: dict[Path, FileDump]) -> None:
    """Remarks come at the end of a run: a heading that names the file, and lines with what was found in it."""
    current: FileDump | None = None
    for line in errors.split("\n"):
        if not line or _NOISE.match(line):
            continue
        heading = _HEADING.match(line)
        gap = _GAP.match(line)
        if heading:
            current = dumps[Path(heading["path"])]
            if not line.startswith("Non-consecutive"):
                current.index_complaints.append(heading["remark"])
        elif current and gap:
            # Kafka 4.3.1 compares the first record of a segment with −1, which is no offset.
            if int(gap[1]) != -1:
                current.gaps.append((int(gap[1]), int(gap[2])))
        elif current and _INDEX_DETAIL.match(line):
            current.index_complaints.append(line.strip())
        else:
            raise KafkaComplaintError(f"DumpLogSegments complains: {line}\n{errors[-4000:]}")
