"""What imports do not show: tables about this repository, about pytest, and about what other libraries call."""

from __future__ import annotations

from fnmatch import fnmatchcase

# Bases and decorators that call back nothing. A class with another base from elsewhere may have any method called.
PLAIN_BASES = {
    *("object", "tuple", "int", "str", "float", "bytes", "list", "dict", "set", "frozenset"),
    *("ABC", "Enum", "Flag", "Generic", "IntEnum", "IntFlag", "NamedTuple", "Protocol", "StrEnum", "TypedDict"),
}
PLAIN_DECORATORS = {
    *("abstractmethod", "cache", "cached_property", "classmethod", "contextmanager", "dataclass", "deleter", "final"),
    *("fixture", "getter", "lru_cache", "overload", "override", "property", "runtime_checkable", "setter"),
    *("staticmethod", "total_ordering", "unique", "wraps"),
}
PLAIN_DECORATOR_MODULES = ("cython.", "pytest.mark.")

# Methods that other libraries call on any object that has them: files, mappings, threads, iterators, sockets.
CALLED_BY_OTHERS = {
    *(
        "acquire",
        "cancel",
        "close",
        "emit",
        "fileno",
        "flush",
        "get",
        "isatty",
        "items",
        "join",
        "keys",
        "next",
        "read",
    ),
    *("readinto", "readline", "recv", "release", "result", "run", "seek", "send", "start", "stop", "tell", "throw"),
    *("values", "write", "writelines"),
}

CALLED_BY_PYTEST = ("pytest_", "setup", "teardown", "test")

# pytest loads these without a name in any test.
PLUGINS = ("src/tailrace/testing/pytest_plugin.py",)

PROGRAM = "tailrace"  # as a text: `python -m tailrace`, the installed command, or Spark's format
PROGRAM_FILE = "src/tailrace/__main__.py"
SPARK_FORMAT_FILE = "src/pyspark_tailrace/__init__.py"
SPARK_FOLDERS = ("src/tailrace/spark/", "examples/")

# A command of the command line imports what it needs when it runs. Only a test that names the command runs it.
COMMANDS_FOLDER = "src/tailrace/cli/"
COMMANDS_TABLE = ("src/tailrace/cli/main.py", "COMMANDS")
COMMANDS_ENTRY = "register"
NO_COMMANDS_NAMED_IN = ("src/",)  # hints, help and the registration itself name commands, too
BUT_NAMED_IN = ("src/tailrace/testing/",)

KERNELS = "src/tailrace/record/kernels/"
KERNELS_BY_NAME = (KERNELS + "__init__.py", "interpreted")  # runs the kernel whose name it gets from its source

# Python files that are found by the name of their folder.
PROGRAM_FOLDERS = ("examples/*", "*/sitecustomize.py")
COMMON_FOLDERS = {"src", "tests", "tools", "tailrace"}  # too common as texts to say which file is meant
COMMON_FILES = {"__init__.py", "conftest.py"}

EVERYTHING = "*"

# Files that are no sources: the first pattern that matches decides, and `EVERYTHING` selects all tests. A file without
# a pattern affects the units that name it or a folder above it, and all tests where there is no such unit.
OTHER_FILES: tuple[tuple[str, str], ...] = (
    ("pyproject.toml", EVERYTHING),
    ("MANIFEST.in", "tests/packaging/*"),
    ("LICENSE", "tests/packaging/*"),
    ("Makefile", ""),
    (".*", ""),
    ("deploy/*", "tests/unit/docs/*"),
    ("docs/images/*", ""),
    ("docs/*.svg", ""),
    ("*/py.typed", ""),
    ("tools/language_counts.json", ""),
    ("tests/durations.json", ""),
    ("tests/budgets.toml", "tests/unit/tools/*"),
    ("tools/mutants.toml", "tests/unit/tools/*"),
)

# Files that read others as texts: (reader, pattern of what it reads).
READERS: tuple[tuple[str, str], ...] = (
    ("tools/language.py", "*"),
    ("tests/unit/test_import_direction.py", "src/*"),
    ("tests/unit/docs/source_names.py", "*"),
    ("tests/unit/docs/test_docs.py", "*"),
    ("tests/unit/docs/doc_examples.py", "docs/*"),
    ("tests/support/docs/page_blocks.py", "README*"),
    ("tests/support/docs/page_blocks.py", "docs/*"),
    ("tests/unit/cli/test_command_tree.py", "src/*"),
    ("tests/unit/suite/test_seeds.py", "tests/*"),
    ("tests/unit/tools/test_budgets.py", "tests/*"),
    ("tools/mutation_testing/candidates.py", "src/*"),
    ("tests/packaging/test_packaging.py", "src/*"),
    ("tests/compat/test_messages_judged_by_kafka.py", "src/tailrace/protocol/*"),
)


def has_plain_decorator(decorator: str) -> bool:
    return decorator.rpartition(".")[2] in PLAIN_DECORATORS or decorator.startswith(PLAIN_DECORATOR_MODULES)


def is_plain_base(base: str) -> bool:
    name = base.rpartition(".")[2]
    return name in PLAIN_BASES or name.endswith(("Error", "Exception", "Warning"))


def names_commands(path: str) -> bool:
    return path.startswith(BUT_NAMED_IN) or not path.startswith(NO_COMMANDS_NAMED_IN)


def rule_of(path: str) -> str | None:
    """What a changed file affects that is no source; None if no pattern matches."""
    return next((affected for pattern, affected in OTHER_FILES if fnmatchcase(path, pattern)), None)


def readers_of(path: str) -> list[str]:
    return [reader for reader, pattern in READERS if fnmatchcase(path, pattern)]


def matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern)
