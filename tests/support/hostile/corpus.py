"""What hostile bytes are made from: every file that Kafka left in the golden directories, and all that we can build."""

from __future__ import annotations

from functools import cache
from itertools import product

from golden.corpus import LOG_DIRS, cases
from support.hostile.mutation import Seed, seed_of_batches, seed_of_entries, zlibs_gzip
from support.logs.log_files import DIRECTORY, Bench, busy_log, whole_directory
from tailrace.env import Mode
from tailrace.record.batch import LOG_APPEND_TIME, set_base_offset
from tailrace.record.builder import BatchBuilder, empty_batch
from tailrace.record.compression import compress
from tailrace.record.control import ABORT, COMMIT, end_txn_marker
from tailrace.record.legacy import GREATEST_CODEC, compressed_wrapper, plain_message
from tailrace.record.shallow import batches
from tailrace.sim import World
from tailrace.sim.disk import SimDisk

TIMESTAMP = 1_700_000_000_000
LONGEST_SEED_BYTES = 4096  # a short seed is read more often in the same time, and has all that a long one has

OFFSET_INDEX_FIELDS = ((0, 4), (4, 4))
TIME_INDEX_FIELDS = ((0, 8), (8, 4))
TXN_INDEX_FIELDS = ((0, 2), (2, 8), (10, 8), (18, 8), (26, 8))
SNAPSHOT_FIELDS = ((0, 8), (8, 2), (10, 4), (14, 8), (22, 4), (26, 8), (34, 4), (38, 8))
SNAPSHOT_HEADER_FIELDS = ((0, 2), (2, 4), (6, 4))

Directory = dict[str, bytes]


@cache
def golden_directories() -> tuple[Directory, ...]:
    """Every partition that Kafka wrote, by file name."""
    return tuple({file.name: file.read_bytes() for file in sorted(golden.folder.iterdir())} for golden in cases())


@cache
@zlibs_gzip()
def own_directories() -> tuple[Directory, ...]:
    """Logs of our own with everything that a log can hold, ended by a close and by a kill."""
    found = []
    for ends_cleanly in (True, False):
        bench = Bench()
        log = bench.open()
        busy_log(log)
        log.flush()
        bench.finish_jobs()
        if ends_cleanly:
            bench.close(log)
        found.append(whole_directory(bench.disk))
    return tuple(found)


@cache
def directories() -> tuple[Directory, ...]:
    return golden_directories() + own_directories()


def disk_with(directory: Directory, path: str = DIRECTORY) -> SimDisk:
    """A simulated disk that holds the directory, durably."""
    disk = World(0).disk
    disk.make_dir(path)
    for name, data in directory.items():
        put(disk, f"{path}/{name}", data)
    disk.sync_all()
    return disk


def put(disk: SimDisk, path: str, data: bytes) -> None:
    """The file has these bytes and no others."""
    file = disk.open(path, Mode.REPLACE)
    if data:
        file.write_at((data,), 0)
    file.close()


def files_ending(*suffixes: str) -> list[bytes]:
    found = (data for each in directories() for name, data in each.items() if name.endswith(suffixes))
    return sorted(set(found))


@cache
def batch_seeds() -> tuple[Seed, ...]:
    """Batches alone and in rows: each of Kafka's, and ours of every magic, codec and kind."""
    rows: set[bytes] = set(built_batches())
    for log in files_ending(".log"):
        found = list(batches(log))
        for count in (1, 2, 4):
            for place in range(0, len(found), count):
                part = found[place : place + count]
                row = log[part[0].position : part[-1].end]
                if len(row) <= LONGEST_SEED_BYTES:
                    rows.add(row)
    return tuple(seed_of_batches(row) for row in sorted(rows))


@cache
def sent_seeds() -> tuple[Seed, ...]:
    """Batches as a producer sends them: each alone, from offset 0 on, stamped by the producer."""
    found = set()
    for seed in batch_seeds():
        sent = bytearray(seed.data)
        for batch in batches(sent):
            set_base_offset(sent, batch.position, 0)
            one = bytes(sent[batch.position : batch.end])
            is_producers = not batch.is_v2 or (not batch.is_control and batch.timestamp_type != LOG_APPEND_TIME)
            if is_producers and batch.record_count and batch.last_offset - batch.base_offset < batch.record_count:
                found.add(one)
    return tuple(seed_of_batches(one) for one in sorted(found))


@cache
def log_seeds() -> tuple[Seed, ...]:
    """Whole data files."""
    return tuple(seed_of_batches(data) for data in files_ending(".log") if data)


@zlibs_gzip()
def built_batches() -> list[bytes]:
    found = [bytes(batch) for codec in range(5) for batch in _v2_batches(codec)]
    found += [bytes(empty_batch(7, 9, producer_id=4, producer_epoch=1, base_sequence=2, max_timestamp=TIMESTAMP))]
    found += [
        bytes(end_txn_marker(kind, producer_id=4, producer_epoch=1, coordinator_epoch=3, timestamp=TIMESTAMP))
        for kind in (ABORT, COMMIT)
    ]
    messages = [(n, TIMESTAMP + n, b"k%d" % n if n else None, b"v" * n if n != 2 else None) for n in range(4)]
    for magic in (0, 1):
        found.append(b"".join(plain_message(*message, magic=magic) for message in messages))
        found += [
            compressed_wrapper(messages, magic=magic, codec=codec, timestamp_type=kind, log_append_time_ms=TIMESTAMP)
            for codec, kind in product(range(1, GREATEST_CODEC[magic] + 1), (0, LOG_APPEND_TIME))
        ]
    return found


def _v2_batches(codec: int) -> list[bytearray]:
    few = [(b"key", b"value"), (None, b"v"), (b"", None), (b"k" * 70, b"x" * 200)]
    with_headers = BatchBuilder(codec=codec)
    for place, (key, value) in enumerate(few):
        with_headers.append(TIMESTAMP - place, key, value, [("h", b"1"), ("ü", None), ("", b"")][:place])
    of_producer = BatchBuilder(
        codec=codec, producer_id=9, producer_epoch=2, base_sequence=2**31 - 2, transactional=True
    )
    with_horizon = BatchBuilder(40, codec=codec, delete_horizon_ms=TIMESTAMP + 5, unused_attributes=0x4000)
    stamped = BatchBuilder(codec=codec, timestamp_type=LOG_APPEND_TIME, log_append_time_ms=TIMESTAMP, leader_epoch=5)
    many = BatchBuilder(codec=codec)
    for n in range(3):
        of_producer.append(TIMESTAMP, b"k%d" % n, b"v" * 20)
        with_horizon.append_at(40 + 3 * n, TIMESTAMP + n, b"k%d" % n, None)
        stamped.append(TIMESTAMP + 3, b"k", b"v")
    for n in range(150):
        many.append(TIMESTAMP + n, b"k%d" % n, b"value")
    return [each.build() for each in (with_headers, of_producer, with_horizon, stamped, many)]


@cache
@zlibs_gzip()
def codec_seeds() -> tuple[tuple[int, Seed], ...]:
    """Compressed blocks in every framing, each with its codec."""
    texts = [b"", b"a", b"tailrace " * 40, bytes(range(256)) * 9, bytes(70_000)]
    found = {(codec, compress(codec, text)) for codec in range(5) for text in texts}
    for log in files_ending(".log"):
        for batch in batches(log):
            if batch.is_v2 and batch.codec and batch.size <= LONGEST_SEED_BYTES:
                found.add((batch.codec, log[batch.position + 61 : batch.end]))
    length_fields = tuple((position, 4) for position in range(0, 24, 4))
    return tuple((codec, Seed(data, length_fields)) for codec, data in sorted(found))


@cache
def index_seeds() -> dict[str, tuple[Seed, ...]]:
    """By suffix. Files of full length are cut to a few slots of zeros behind their entries."""
    kinds = {".index": OFFSET_INDEX_FIELDS, ".timeindex": TIME_INDEX_FIELDS, ".txnindex": TXN_INDEX_FIELDS}
    found: dict[str, tuple[Seed, ...]] = {}
    for suffix, fields in kinds.items():
        entry_bytes = sum(size for _, size in fields)
        long_one = b"".join(_entry(fields, n) for n in range(1400))  # more than the warm section holds
        datas = [data[:2048] for data in files_ending(suffix)] + [b"", long_one]
        found[suffix] = tuple(seed_of_entries(data, fields, entry_bytes) for data in sorted(set(datas)))
    return found


def _entry(fields: tuple[tuple[int, int], ...], number: int) -> bytes:
    return b"".join((0 if size == 2 else 5 * number).to_bytes(size, "big") for _, size in fields)


@cache
def snapshot_seeds() -> tuple[Seed, ...]:
    def seed(data: bytes) -> Seed:
        made = seed_of_entries(data, SNAPSHOT_FIELDS, 46, 10)
        return made._replace(fields=SNAPSHOT_HEADER_FIELDS + made.fields)

    return tuple(seed(data) for data in files_ending(".snapshot"))


@cache
def text_seeds() -> dict[str, tuple[Seed, ...]]:
    """By kind: offsets, epochs, metadata."""
    offsets = [file.read_bytes() for file in sorted(LOG_DIRS.rglob("*-offset-checkpoint"))]
    offsets += [b"0\n0\n", b"0\n2\norders 0 4711\norders 1 0\n"]
    epochs = [*files_ending("leader-epoch-checkpoint"), b"0\n3\n0 0\n4 17\n5 90\n"]
    metadata = files_ending("partition.metadata")
    kinds = {"offsets": offsets, "epochs": epochs, "metadata": metadata}
    return {kind: tuple(Seed(data) for data in sorted(set(datas))) for kind, datas in kinds.items()}
