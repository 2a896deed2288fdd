"""Versions of the repository: the working tree or a commit, with the facts of each file.

Facts depend on a file's content alone. They are kept in a cache under the hash that git gives the content, so that only
files that changed are parsed.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from selection.facts import BODY, Facts, Import, Unit, facts_of

VERSION = f"1 {sys.version}"  # of the cache; a Python of another version parses otherwise
SOURCES = (".py", ".pxd", ".md")

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4,}[^\n]*\n)+")
_CIMPORT = re.compile(r"^from ([\w.]+) cimport \(?([^)#]*?)\)?$", re.MULTILINE)


class Git:
    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *words: str, given: bytes | None = None) -> bytes:
        """Raises OSError or CalledProcessError."""
        command = ["git", "-C", str(self.root), *words]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout

    def names(self, *words: str) -> list[str]:
        return [os.fsdecode(name) for name in self(*words).split(b"\0") if name]

    def blobs(self, hashes: Iterable[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(hashes))
        output = self("cat-file", "--batch", given="".join(f"{each}\n" for each in wanted).encode()) if wanted else b""
        found, position = {}, 0
        for each in wanted:
            end = output.index(b"\n", position)
            size = int(output[position:end].split()[2])
            found[each] = output[end + 1 : end + 1 + size]
            position = end + size + 2
        return found


class Tree:
    """Paths of one version with the hashes of their contents."""

    def __init__(self, git: Git, hashes: Mapping[str, str], unsaved: Mapping[str, bytes]) -> None:
        self._git = git
        self._unsaved = unsaved  # contents that git does not have, by hash
        self.hashes = hashes

    @classmethod
    def of_commit(cls, git: Git, revision: str) -> Tree:
        rows = git.names("ls-tree", "-r", "-z", "--full-tree", revision)
        return cls(git, {path: row.split()[2] for row, _, path in (each.partition("\t") for each in rows)}, {})

    @classmethod
    def of_working_tree(cls, git: Git) -> Tree:
        rows = git.names("ls-files", "-s", "-z")
        hashes = {path: row.split()[1] for row, _, path in (each.partition("\t") for each in rows)}
        touched = git.names("ls-files", "-m", "-o", "-d", "--exclude-standard", "-z")
        unsaved = {}
        for path in set(touched):
            file = git.root / path
            if not file.is_file():
                hashes.pop(path, None)
                continue
            content = file.read_bytes()
            digest = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            hashes[path] = digest
            unsaved[digest] = content
        return cls(git, hashes, unsaved)

    def contents(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Contents by path; a path that the tree does not have is left out."""
        wanted = {path: self.hashes[path] for path in paths if path in self.hashes}
        found = self._git.blobs(each for each in wanted.values() if each not in self._unsaved) | dict(self._unsaved)
        return {path: found[each] for path, each in wanted.items()}


class FactsCache:
    """Facts by the hash of the content, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Any] = {}
        self._used: dict[str, Any] = {}
        try:
            version, known = marshal.loads(file.read_bytes())
            self._known = known if version == VERSION else {}
        except (OSError, ValueError, EOFError, TypeError):
            pass  # no cache, or half of one

    def facts(self, tree: Tree, paths: Iterable[str] | None = None) -> dict[str, Facts]:
        """Facts of the sources among the paths of a tree, those of `.pxd` files as part of the module beside them."""
        paths = [path for path in (tree.hashes if paths is None else paths) if path.endswith(SOURCES)]
        missing = [path for path in paths if self._key(path, tree) not in self._known]
        for path, content in tree.contents(missing).items():
            self._known[self._key(path, tree)] = _plain(parse(path, content))
        found = {}
        for path in paths:
            key = self._key(path, tree)
            self._used[key] = self._known[key]
            found[path] = _facts(self._known[key])
        return _with_declarations(found)

    def _key(self, path: str, tree: Tree) -> str:
        return tree.hashes[path] + path[path.rindex(".") :]

    def save(self) -> None:
        """Keeps what was used since the cache was read."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        replacement = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        replacement.write_bytes(marshal.dumps((VERSION, self._used)))
        os.replace(replacement, self._file)


def _plain(facts: Facts) -> Any:
    imports, type_imports = ([tuple(each) for each in some] for some in (facts.imports, facts.type_imports))
    units = {name: (*unit[:4], [tuple(each) for each in unit.imports], *unit[5:]) for name, unit in facts.units.items()}
    return units, imports, type_imports


def _facts(plain: Any) -> Facts:
    units, imports, type_imports = plain
    made = {name: Unit(*row[:4], tuple(Import(*each) for each in row[4]), *row[5:]) for name, row in units.items()}
    return Facts(made, tuple(Import(*each) for each in imports), tuple(Import(*each) for each in type_imports))


def parse(path: str, content: bytes) -> Facts:
    """Raises SyntaxError for Python that cannot be parsed."""
    if path.endswith(".md"):
        return facts_of_page(content.decode())
    if path.endswith(".pxd"):
        text = content.decode().replace("\n    ", " ").replace("\n)", ")")
        imports = [
            Import(module, 0, name.strip(), name.strip())
            for module, names in _CIMPORT.findall(text)
            for name in names.split(",")
            if name.strip()
        ]
        return Facts({}, tuple(imports), ())
    try:
        return facts_of(content)
    except SyntaxError as error:
        error.filename = path
        raise


def facts_of_page(text: str) -> Facts:
    """A Markdown page as a program: its Python blocks are its code, all of its code is a text."""
    blocks = [(kind, textwrap.dedent(code)) for _, kind, code in _FENCED.findall(text)]
    blocks += [("", textwrap.dedent(code)) for code in _INDENTED.findall(_FENCED.sub("", text))]
    programs = [code for kind, code in blocks if kind == "python" and _is_python(code)]
    facts = facts_of("\n".join(programs))
    body = facts.units[BODY]
    texts = (*body.texts, *(code for _, code in blocks))
    return facts._replace(units={**facts.units, BODY: body._replace(texts=texts)})


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def _with_declarations(files: dict[str, Facts]) -> dict[str, Facts]:
    for path in [path for path in files if path.endswith(".pxd")]:
        declared = files.pop(path)
        module = path.removesuffix(".pxd") + ".py"
        if module in files:
            files[module] = files[module]._replace(imports=files[module].imports + declared.imports)
    return files
