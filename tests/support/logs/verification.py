"""Verifications on a disk that cannot be changed, and ways to damage a log for them."""

from __future__ import annotations

from pathlib import Path

from tailrace.env import Mode
from tailrace.env.real import RealFiles
from tailrace.record.batch import BatchHeader, crc_of
from tailrace.storage.finding import Finding
from tailrace.storage.log_walk import LogWalk
from tailrace.storage.verify import verify_directory


class ReadingFiles(RealFiles):
    """A disk on which nothing can be changed."""

    def open(self, path: str, mode: Mode):  # type: ignore[no-untyped-def]
        assert mode is Mode.READ, f"{path} was opened for {mode}"
        return super().open(path, mode)

    def refuse(self, *_: object) -> None:
        raise AssertionError("a verification changed the directory")

    make_dir = rename = unlink = remove_dir = sync_dir = refuse


FILES = ReadingFiles()


def errors(directory: Path) -> list[Finding]:
    return list(verify_directory(FILES, str(directory)))


def all_findings(directory: Path) -> list[Finding]:
    return list(verify_directory(FILES, str(directory), notes=True))


def logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def single(findings: list[Finding]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def positions(log: Path) -> list[int]:
    file = FILES.open(str(log), Mode.READ)
    found = [walked.position for walked in LogWalk(file)]
    file.close()
    return found


def edit(path: Path, position: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def edit_header(path: Path, position: int, **fields: int) -> None:
    """Change a batch's header and give it the right CRC again."""
    content = bytearray(path.read_bytes())
    header = BatchHeader.at(content, position)._replace(**fields)
    content[position : position + 61] = header.pack()
    header = header._replace(crc=crc_of(content, position, header.size))
    content[position : position + 61] = header.pack()
    path.write_bytes(content)
