from __future__ import annotations

import errno
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tailrace.env import Entry, File, Files, Mode, write_fully
from tailrace.env.files import MAX_PARTS
from tailrace.env.real import RealFile, RealFiles, real_env


@pytest.fixture
def files() -> RealFiles:
    return RealFiles()


def make(tmp_path: Path, content: bytes = b"") -> str:
    path = tmp_path / "f"
    path.write_bytes(content)
    return str(path)


@contextmanager
def refused(code: int) -> Iterator[pytest.ExceptionInfo[OSError]]:
    with pytest.raises(OSError) as caught:
        yield caught
    assert caught.value.errno == code


def test_fulfils_the_protocols(files: RealFiles, tmp_path: Path) -> None:
    as_files: Files = files
    as_file: File = as_files.open(make(tmp_path), Mode.READ)
    assert as_file.path == str(tmp_path / "f")


@pytest.mark.parametrize("mode", [Mode.READ, Mode.WRITE])
def test_read_and_write_need_the_file(files: RealFiles, tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(str(tmp_path / "missing"), mode)


def test_read_refuses_changes(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path, b"abc"), Mode.READ)
    with refused(errno.EBADF):
        file.write_at([b"x"], 0)
    with refused(errno.EINVAL):
        file.truncate(0)
    assert file.read_at(10, 0) == b"abc"


def test_write_and_create_keep_and_replace_empties(files: RealFiles, tmp_path: Path) -> None:
    path = make(tmp_path, b"abc")
    for mode in (Mode.WRITE, Mode.CREATE):
        file = files.open(path, mode)
        assert file.size() == 3
        assert file.write_at([b"z"], 0) == 1
        assert file.read_at(3, 0) == b"zbc"
    assert files.open(path, Mode.REPLACE).size() == 0


@pytest.mark.parametrize("mode", [Mode.CREATE, Mode.REPLACE])
def test_create_and_replace_make(files: RealFiles, tmp_path: Path, mode: Mode) -> None:
    path = str(tmp_path / "new")
    assert files.open(path, mode).size() == 0
    assert os.stat(path).st_mode & 0o111 == 0


@pytest.mark.parametrize("mode", list(Mode))
def test_a_directory_is_no_file(files: RealFiles, tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(IsADirectoryError):
        files.open(str(tmp_path), mode)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_fifo_or_a_device_is_no_file_and_is_not_waited_for(files: RealFiles, tmp_path: Path, mode: Mode) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (str(tmp_path / "fifo"), os.devnull):
        with refused(errno.EINVAL) as caught:
            files.open(path, mode)
        assert "not a regular file" in str(caught.value)
        assert path in str(caught.value)


def test_writes_gather_parts_at_a_position(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path), Mode.WRITE)
    assert file.write_at([b"ab", bytearray(b"cd"), memoryview(b"efg")[:1]], 3) == 5
    assert file.write_at([], 0) == 0
    assert file.read_at(100, 0) == b"\0\0\0abcde"
    assert file.read_at(2, 4) == b"bc"
    assert file.read_at(2, 8) == b""
    assert file.read_at(0, 0) == b""


def test_write_fully_passes_the_limit_of_parts(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path), Mode.WRITE)
    parts = [bytes([n % 251]) for n in range(MAX_PARTS + 10)]
    with refused(errno.EINVAL):
        file.write_at(parts, 0)
    write_fully(file, parts, 1)
    assert file.read_at(5000, 1) == b"".join(parts)


def test_read_into_fills_until_the_end(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path, b"abcdef"), Mode.READ)
    buffer = bytearray(4)
    assert file.read_into(memoryview(buffer), 1) == 4
    assert buffer == b"bcde"
    assert file.read_into(memoryview(buffer), 4) == 2
    assert buffer == b"efde"
    assert file.read_into(memoryview(buffer), 6) == 0


def test_a_short_read_of_the_kernel_is_continued(
    files: RealFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open(make(tmp_path, b"abcdefg"), Mode.READ)
    pread, preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, at: pread(fd, min(size, 2), at))
    monkeypatch.setattr(os, "preadv", lambda fd, views, at: preadv(fd, [views[0][:2]], at))
    assert file.read_at(5, 1) == b"bcdef"
    assert file.read_at(50, 1) == b"bcdefg"
    buffer = bytearray(50)
    assert file.read_into(memoryview(buffer), 1) == 6
    assert buffer[:6] == b"bcdefg"


def test_a_negative_position_is_refused_and_not_taken_for_the_cursor(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path, b"abc"), Mode.WRITE)
    for call in (
        lambda: file.write_at([b"x"], -1),
        lambda: file.write_at([b"x", b"y"], -1),
        lambda: file.read_at(1, -1),
        lambda: file.read_into(memoryview(bytearray(1)), -1),
    ):
        with refused(errno.EINVAL):
            call()
    assert file.read_at(9, 0) == b"abc"


def test_truncate_cuts_and_extends_with_zeros(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path, b"abcdef"), Mode.WRITE)
    file.truncate(2)
    file.truncate(4)
    file.sync()
    assert file.read_at(10, 0) == b"ab\0\0"


def test_map_sees_later_writes_and_refuses_after_close(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path, b"abcdef"), Mode.WRITE)
    mapping = file.map()
    file.write_at([b"XY"], 1)
    file.close()
    assert len(mapping) == 6
    assert mapping[0:3] == b"aXY"
    assert isinstance(mapping[0:3], bytes)
    mapping.close()
    with pytest.raises(ValueError):
        mapping[0:3]


def test_an_empty_file_cannot_be_mapped(files: RealFiles, tmp_path: Path) -> None:
    with refused(errno.EINVAL):
        files.open(make(tmp_path), Mode.WRITE).map()


def test_a_closed_file_refuses_everything_and_names_itself(files: RealFiles, tmp_path: Path) -> None:
    path = make(tmp_path, b"abc")
    file = files.open(path, Mode.WRITE)
    fd = file.fileno()
    file.close()
    file.close()
    with refused(errno.EBADF):
        os.fstat(fd)
    calls = [
        file.fileno,
        file.size,
        file.sync,
        file.map,
        lambda: file.read_at(1, 0),
        lambda: file.read_into(memoryview(bytearray(1)), 0),
        lambda: file.write_at([b"a"], 0),
        lambda: file.write_at([b"a", b"b"], 0),
        lambda: file.truncate(0),
    ]
    for call in calls:
        with refused(errno.EBADF) as caught:
            call()
        assert path in str(caught.value)


def test_the_descriptor_goes_with_the_last_reference(files: RealFiles, tmp_path: Path) -> None:
    file = files.open(make(tmp_path), Mode.READ)
    fd = file.fileno()
    assert not os.get_inheritable(fd)
    del file
    gc.collect()
    with refused(errno.EBADF):
        os.fstat(fd)


def test_a_handle_survives_rename_and_unlink(files: RealFiles, tmp_path: Path) -> None:
    path = make(tmp_path, b"abc")
    file = files.open(path, Mode.WRITE)
    files.rename(path, path + ".deleted")
    files.unlink(path + ".deleted")
    file.write_at([b"z"], 0)
    assert file.read_at(3, 0) == b"zbc"
    assert not files.exists(path)


def test_list_is_sorted_and_follows_links(files: RealFiles, tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "B").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    names = {"B": False, "a": True, "b": True, "broken": False, "c": True, "link": True, "loop": False}
    expected = names.items()
    assert files.list(str(tmp_path)) == [Entry(*entry) for entry in expected]
    with pytest.raises(NotADirectoryError):
        files.list(str(tmp_path / "B"))


def test_exists_tells_absence_from_failure(files: RealFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make(tmp_path)
    assert files.exists(path)
    assert files.exists(str(tmp_path))
    assert not files.exists(path + "x")
    assert not files.exists(path + "/below-a-file")

    def denied(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, "denied", path)

    monkeypatch.setattr(os, "stat", denied)
    with pytest.raises(PermissionError):
        files.exists(path)


def test_size_and_time(files: RealFiles, tmp_path: Path) -> None:
    path = make(tmp_path, b"abc")
    os.utime(path, ns=(0, 1_234_567_999))
    assert files.size(path) == 3
    assert files.modified_ms(path) == 1234
    files.set_modified_ms(path, 5678)
    assert files.modified_ms(path) == 5678


def test_directories(files: RealFiles, tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    files.make_dir(path)
    files.make_dir(path)
    files.sync_dir(path)
    files.open(path + "/f", Mode.CREATE)
    with pytest.raises(FileExistsError):
        files.make_dir(path + "/f")
    with pytest.raises(NotADirectoryError):
        files.sync_dir(path + "/f")
    with refused(errno.ENOTEMPTY):
        files.remove_dir(path)
    files.unlink(path + "/f")
    files.remove_dir(path)
    assert not files.exists(path)


def test_rename_replaces(files: RealFiles, tmp_path: Path) -> None:
    path = make(tmp_path, b"new")
    (tmp_path / "target").write_bytes(b"old")
    files.rename(path, str(tmp_path / "target"))
    assert (tmp_path / "target").read_bytes() == b"new"
    assert not files.exists(path)


def test_real_env() -> None:
    env = real_env(seed=7)
    assert env.random.random() == real_env(seed=7).random.random()
    assert env.clock.now_ms() > 1_600_000_000_000
    first = env.clock.monotonic_ms()
    assert env.clock.monotonic_ms() >= first
    assert repr(RealFile(-1, "/x")) == "RealFile('/x', fd=-1)"


def test_space_of_a_disk(files: RealFiles, tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    space = files.space(str(tmp_path))
    assert space.total_bytes == disk.f_frsize * disk.f_blocks
    assert 0 <= space.usable_bytes <= space.total_bytes
    with refused(errno.ENOENT):
        files.space(str(tmp_path / "gone"))
