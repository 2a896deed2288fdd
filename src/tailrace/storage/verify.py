"""Is a partition's directory what its files say it is? Everything is read, nothing is written.

    .log                     batches whole, CRCs right, magic known, offsets ascending in and across segments
    .index .timeindex        what they say is true of the log; they may say less than they could
    .txnindex                every entry's abort marker stands where it says
    .snapshot                format and CRC; no state from behind its offset
    leader-epoch-checkpoint  epochs and offsets ascend, and the batches have these epochs
    partition.metadata       can be read

Whatever the bytes are, the result is findings, never an error, and memory stays bounded. May be used beside the owner
of a log that is open: files that go away and bytes that are added meanwhile are no fault. A log that its owner
truncates meanwhile may show findings that a second run does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tailrace.env import Files
from tailrace.model.errors import CorruptCheckpointError, CorruptSnapshotError
from tailrace.storage import names, producer_snapshot
from tailrace.storage.checkpoint import CheckpointFile
from tailrace.storage.epoch_cache import EpochEntry, parse_entry
from tailrace.storage.finding import ERROR, NOTE, Finding
from tailrace.storage.partition_metadata import PartitionMetadata
from tailrace.storage.verify_segment import SegmentCheck, SegmentPlan

__all__ = ["ERROR", "NOTE", "DirectoryCheck", "Finding", "Progress", "verify_directory"]

Progress = Callable[[int, int], None]

PROGRESS_BYTES: Final = 1 << 20
MAX_SNAPSHOT_BYTES: Final = 512 << 20  # eleven million producers
_LEFTOVERS: Final = {
    names.DELETED_SUFFIX: "is to be deleted",
    names.CLEANED_SUFFIX: "is of a compaction or split that did not finish",
    names.SWAP_SUFFIX: "is of a compaction or split that is finished when the log is opened",
    names.TEMPORARY_SUFFIX: "was to replace another file and did not",
}


def verify_directory(
    files: Files, directory: str, *, progress: Progress | None = None, notes: bool = False
) -> Iterator[Finding]:
    """Every error in a partition's directory, and with `notes` what is merely worth knowing.

    `progress` is called with the bytes of log done and the bytes there are.
    """
    return DirectoryCheck(files, directory, progress=progress, notes=notes).run()


class DirectoryCheck:
    """One run over one directory; the counts are for a summary after it."""

    def __init__(self, files: Files, directory: str, *, progress: Progress | None = None, notes: bool = False) -> None:
        self._files = files
        self._directory = directory
        self._progress = progress
        self._notes = notes
        self._found: list[Finding] = []
        self._names: frozenset[str] = frozenset()
        self._epochs: list[EpochEntry] = []
        self._epochs_are_empty = False
        self.segments = 0
        self.batches = 0
        self.bytes = 0
        self.end_offset = 0
        self._end_is_known = False

    def run(self) -> Iterator[Finding]:
        try:
            self._list()
        except OSError as error:
            self._report(Finding(".", None, f"the directory cannot be listed: {error.strerror or error}"))
        self._read_metadata()
        self._read_epochs()
        yield from self._drain()
        yield from self._check_segments()
        for name in sorted(self._names):
            if name.endswith(names.SNAPSHOT_SUFFIX) and names.parse_offset(name) is not None:
                self._check_snapshot(name)
                yield from self._drain()
        self._check_epochs_end()
        yield from self._drain()

    def _report(self, finding: Finding) -> None:
        if finding.severity == ERROR or self._notes:
            self._found.append(finding)

    def _problem(self, name: str, problem: str) -> None:
        self._report(Finding(name, None, problem))

    def _drain(self) -> Iterator[Finding]:
        found, self._found = self._found, []
        yield from found

    # The directory

    def _list(self) -> None:
        entries = self._files.list(self._directory)
        self._names = frozenset(entry.name for entry in entries if not entry.is_dir)
        for entry in entries:
            problem, severity = self._name_problem(entry.name, entry.is_dir)
            if problem:
                self._report(Finding(entry.name, None, problem, severity))

    def _name_problem(self, name: str, is_dir: bool) -> tuple[str, str]:
        for suffix, meaning in _LEFTOVERS.items():
            if name.endswith(suffix) and not is_dir:
                return f"{meaning}; it goes when the log is opened", NOTE
        offset = names.parse_offset(name)
        if offset is not None and not is_dir:
            suffix = name[20:]
            if suffix in names.INDEX_SUFFIXES and names.log_name(offset) not in self._names:
                return f"is an index without {names.log_name(offset)}", ERROR
            if suffix in (names.LOG_SUFFIX, names.SNAPSHOT_SUFFIX, *names.INDEX_SUFFIXES):
                return "", NOTE
        if name in (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA) and not is_dir:
            return "", NOTE
        return "is none of a log's files", NOTE

    # The segments

    def _check_segments(self) -> Iterator[Finding]:
        bases = sorted(offset for name in self._names if (offset := _base_of(name)) is not None)
        total_bytes = sum(self._size_of(names.log_name(base)) for base in bases)
        for place, base in enumerate(bases):
            next_base = bases[place + 1] if place + 1 < len(bases) else None
            plan = SegmentPlan(self._directory, base, next_base, self._names, self._epochs)
            check = SegmentCheck(self._files, plan, self._report)
            yield from self._run_segment(check, names.log_name(base), total_bytes)
            self.segments += 1
            self.batches += check.batches
            self.bytes += check.bytes
            self.end_offset = max(self.end_offset, check.next_offset)
            self._end_is_known = check.is_whole
            if self._progress is not None:
                self._progress(self.bytes, max(total_bytes, self.bytes))
            if check.has_epochs and self._epochs_are_empty:
                self._epochs_are_empty = False
                self._problem(names.LEADER_EPOCH_CHECKPOINT, "is empty, but the batches of the log have leader epochs")
            yield from self._drain()

    def _run_segment(self, check: SegmentCheck, name: str, total_bytes: int) -> Iterator[Finding]:
        told = self.bytes
        try:
            for _ in check.steps():
                done = self.bytes + check.bytes
                if self._progress is not None and done - told >= PROGRESS_BYTES:
                    told = done
                    self._progress(done, total_bytes)
                if self._found:
                    yield from self._drain()
        except OSError as error:
            failed = error.filename.rpartition("/")[2] if isinstance(error.filename, str) else name
            self._problem(failed, f"cannot be read: {error.strerror or error}")

    def _size_of(self, name: str) -> int:
        try:
            return self._files.size(names.join(self._directory, name))
        except OSError:
            return 0

    # The rest

    def _read_metadata(self) -> None:
        if names.PARTITION_METADATA in self._names:
            try:
                PartitionMetadata(self._files, self._directory).read()
            except CorruptCheckpointError as error:
                self._problem(names.PARTITION_METADATA, self._without_path(names.PARTITION_METADATA, error))
            except OSError as error:
                self._problem(names.PARTITION_METADATA, f"cannot be read: {error.strerror or error}")

    def _read_epochs(self) -> None:
        name = names.LEADER_EPOCH_CHECKPOINT
        if name not in self._names:
            return
        path = names.join(self._directory, name)
        try:
            self._epochs_are_empty = self._files.size(path) == 0  # as Kafka makes it, before the first record
            entries = [parse_entry(path, line) for line in CheckpointFile(self._files, path, 0).read()]
        except CorruptCheckpointError as error:
            self._problem(name, self._without_path(name, error))
            return
        except OSError as error:
            self._problem(name, f"cannot be read: {error.strerror or error}")
            return
        for entry in entries:
            before = self._epochs[-1] if self._epochs else EpochEntry(-1, -1)
            if entry.epoch <= before.epoch or entry.start_offset <= before.start_offset:
                self._problem(name, f"{_shown(entry)} does not ascend from {_shown(before)}")
            else:
                self._epochs.append(entry)

    def _check_epochs_end(self) -> None:
        """Power loss can take records whose leader epoch is noted. Such an entry goes when the log is opened."""
        if self._epochs and self._end_is_known and self._epochs[-1].start_offset > self.end_offset:
            problem = f"{_shown(self._epochs[-1])} begins after the end of the log at {self.end_offset}"
            self._report(Finding(names.LEADER_EPOCH_CHECKPOINT, None, problem, NOTE))

    def _check_snapshot(self, name: str) -> None:
        offset = names.offset_of(name)
        if self._end_is_known and offset > self.end_offset:  # after power loss; it goes when the log is opened
            self._report(Finding(name, None, f"is of an offset after the end of the log at {self.end_offset}", NOTE))
        path = names.join(self._directory, name)
        try:
            size = self._files.size(path)
            if size > MAX_SNAPSHOT_BYTES:
                self._problem(name, f"has {size} bytes: no snapshot is longer than {MAX_SNAPSHOT_BYTES}")
                return
            entries = producer_snapshot.read(self._files, path)
        except FileNotFoundError:
            self._report(Finding(name, None, "went away while the directory was verified", NOTE))
        except CorruptSnapshotError as error:
            self._problem(name, self._without_path(name, error))
        except OSError as error:
            self._problem(name, f"cannot be read: {error.strerror or error}")
        else:
            for entry in entries:
                newest = max(entry.last_data_offset, entry.txn_first_offset or -1)
                if newest >= offset:
                    self._problem(name, f"knows offset {newest} of producer {entry.producer_id}, at or behind its own")

    def _without_path(self, name: str, error: Exception) -> str:
        """Errors of files begin with their path; a finding names the file already."""
        return str(error).removeprefix(names.join(self._directory, name)).lstrip(": ")


def _base_of(name: str) -> int | None:
    offset = names.parse_offset(name)
    return offset if offset is not None and name == names.log_name(offset) else None


def _shown(entry: EpochEntry) -> str:
    return f"epoch {entry.epoch} from offset {entry.start_offset}"
