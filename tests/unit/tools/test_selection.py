"""The tests that a change can affect, on small repositories: none is missed, and those of other code are left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_repository import EVERY_TEST, LOG, NAMES, TEST, Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_nothing_is_selected_without_a_change(repository: Repository) -> None:
    assert repository.selected() == set()


@pytest.mark.parametrize(
    ("path", "old", "new", "selected"),
    [
        (LOG, "record[:LIMIT]", "record[1:]", {"test_append", "test_newest"}),
        (LOG, "LIMIT = 10", "LIMIT = 11", {"test_append", "test_newest"}),
        (LOG, "self.records[-1]", "self.records[0]", {"test_newest"}),
        (LOG, "self.records = []", "self.records = list()", {"test_append", "test_newest"}),
        (LOG, "def unused(): ...", "def unused(): return 1", set()),
        (LOG, "def unused(): ...", "def unused(): ...  # nothing", set()),
        (
            LOG,
            "def unused(): ...",
            "def unused(): ...\nprint('at import')",
            EVERY_TEST,
        ),
        (NAMES, "'.log'", "'.dat'", {"test_name"}),
        ("tests/support/logs/builders.py", "'x'", "'y'", {"test_append", "test_newest"}),
        (TEST, "assert log.records", "assert log.records == []", {"test_append"}),
        (TEST, "return filled()", "return None", {"test_append", "test_newest"}),
    ],
)
def test_change_selects_what_can_execute_it(
    repository: Repository, path: str, old: str, new: str, selected: set[str]
) -> None:
    assert repository.change(path, old, new) == selected


def test_removed_function_selects_the_tests_of_its_importers(repository: Repository) -> None:
    assert repository.change(NAMES, "def name(offset)", "def title(offset)") == EVERY_TEST


def test_removed_file_selects_the_tests_of_its_importers(repository: Repository) -> None:
    repository.write({NAMES: None})
    assert repository.selected() == EVERY_TEST


def test_new_test_file_is_selected(repository: Repository) -> None:
    repository.write({"tests/unit/test_new.py": "def test_new(): ...\nclass TestClass:\n    def test_it(self): ...\n"})
    assert repository.selected() == {"test_new", "TestClass"}


def test_imported_name_that_comes_from_elsewhere_selects_its_users(repository: Repository) -> None:
    repository.add({"tests/support/others.py": "def filled(): ...\n"})
    assert repository.change(TEST, "from support.logs.builders import filled", "from support.others import filled") == {
        *("test_append", "test_newest")
    }


def test_name_that_a_package_takes_from_elsewhere_selects_its_users(repository: Repository) -> None:
    repository.add({"src/tailrace/storage/other.py": "class Log: ...\n"})
    package = "src/tailrace/storage/__init__.py"
    assert repository.change(package, "tailrace.storage.log", "tailrace.storage.other") == {
        "test_append",
        "test_newest",
    }


def test_package_is_executed_before_its_modules(repository: Repository) -> None:
    repository.add({"src/tailrace/disk/__init__.py": "", "src/tailrace/disk/sizes.py": "def size(): ...\n"})
    repository.add({"tests/unit/test_size.py": "from tailrace.disk.sizes import size\ndef test_size(): size()\n"})
    repository.write({"src/tailrace/disk/__init__.py": "print('at import')\n"})
    assert repository.selected() == {"test_size"}


def test_import_inside_a_function_executes_the_module(repository: Repository) -> None:
    user = "def test_it():\n    import tailrace.effects\ndef test_other(): ...\n"
    repository.add({"src/tailrace/effects.py": "print(1)\n", "tests/unit/test_it.py": user})
    assert repository.change("src/tailrace/effects.py", "print(1)", "print(2)") == {"test_it"}


def test_import_that_is_not_used_has_another_effect(repository: Repository) -> None:
    repository.add({"src/tailrace/effects.py": "print(1)\n"})
    assert repository.change(NAMES, "SUFFIX =", "import tailrace.effects as _\nSUFFIX =") == EVERY_TEST


def test_import_for_an_annotation_has_no_effect(repository: Repository) -> None:
    repository.add({NAMES: "from __future__ import annotations\ndef name(offset: int): ...\n"})
    new = "from typing import Any\ndef name(offset: Any)"
    assert repository.change(NAMES, "def name(offset: int)", new) == {"test_name"}


def test_import_that_closes_a_cycle_selects_the_tests_of_every_importer(repository: Repository) -> None:
    repository.add({"src/tailrace/sizes.py": "from tailrace.storage.names import name\ndef size(): ...\n"})
    new = "from tailrace.sizes import size\ndef other(): size()\nSUFFIX ="
    assert repository.change(NAMES, "SUFFIX =", new) == EVERY_TEST


def test_name_that_a_module_lost_selects_its_users(repository: Repository) -> None:
    user = "from tailrace.storage import names\ndef test_it(): names.name(1)\ndef test_other(): names.SUFFIX\n"
    repository.add({"tests/unit/test_it.py": user})
    assert {"test_it"} == repository.change(NAMES, "def name(offset)", "def title(offset)") - EVERY_TEST


def test_names_imported_in_alternatives_are_all_reached(repository: Repository) -> None:
    files = {
        "src/tailrace/fast.py": "def crc(): ...\n",
        "src/tailrace/slow.py": "def crc(): ...\n",
        "tests/unit/test_it.py": "try:\n    from tailrace.fast import crc\nexcept ImportError:\n"
        "    from tailrace.slow import crc\ndef test_crc(): crc()\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/fast.py", "...", "return 1") == {"test_crc"}


def test_method_that_overrides_selects_callers_of_the_base(repository: Repository) -> None:
    mine = "from tailrace.storage import Log\nclass Mine(Log):\n    size = 1\n"
    user = "from mine import Mine\ndef test_mine(): assert Mine().newest()\ndef test_size(): assert Mine.size\n"
    repository.add({"tests/support/mine.py": mine, "tests/unit/test_mine.py": user})
    new = "    size = 1\n    def newest(self): ...\n"
    assert repository.change("tests/support/mine.py", "    size = 1\n", new) == {"test_mine"}
    repository.commit()
    assert "test_mine" in repository.change("tests/support/mine.py", new, "    size = 1\n")


def test_class_of_an_other_library_may_have_any_method_called(repository: Repository) -> None:
    code = "from threading import Thread\nclass Work(Thread):\n    def notify(self): ...\ndef test_work(): Work()\n"
    repository.add({"tests/support/work.py": code, "tests/unit/test_work.py": "from work import test_work\n"})
    assert repository.change("tests/support/work.py", "notify(self): ...", "notify(self): return 1") == {"test_work"}


def test_attribute_named_by_a_string_is_reached(repository: Repository) -> None:
    user = "from tailrace.storage import Log\nNAME = 'newest'\ndef test_it(): getattr(Log(), NAME)()\n"
    repository.add({"tests/unit/test_it.py": user})
    assert repository.change(LOG, "self.records[-1]", "self.records[0]") == {"test_newest", "test_it"}


def test_attribute_with_a_computed_name_is_reached(repository: Repository) -> None:
    user = "from tailrace.storage import Log\ndef test_it(kind): getattr(Log(), f'new{kind}')()\n"
    repository.add({"tests/unit/test_it.py": user})
    assert repository.change(LOG, "self.records[-1]", "self.records[0]") == {"test_newest", "test_it"}


def test_registering_call_and_subclass_belong_to_the_import(repository: Repository) -> None:
    files = {
        "src/tailrace/registry.py": "KINDS = []\nclass Base:\n    def __init_subclass__(cls): KINDS.append(cls)\n",
        "src/tailrace/kinds.py": "from tailrace.registry import KINDS, Base\nclass Plain(Base):\n    size = 1\n"
        "def later(): ...\ndone = KINDS.append(later)\ndef unused(): ...\n",
        "tests/unit/test_kinds.py": "import tailrace.kinds\nfrom tailrace.registry import KINDS\n"
        "def test_all(): KINDS[0]\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/kinds.py", "later(): ...", "later(): return 1") == {"test_all"}
    repository.commit()
    assert repository.change("src/tailrace/kinds.py", "size = 1", "size = 2") == {"test_all"}
    repository.commit()
    assert repository.change("src/tailrace/kinds.py", "unused(): ...", "unused(): return 1") == set()


def test_registering_decorator_belongs_to_the_import(repository: Repository) -> None:
    files = {
        "src/tailrace/registry.py": "KINDS = {}\ndef kind(made):\n    KINDS[made.__name__] = made\n    return made\n",
        "src/tailrace/kinds.py": "from tailrace.registry import kind\n"
        "@kind\nclass Plain:\n    def __call__(self): ...\n",
        "tests/unit/test_kinds.py": "import tailrace.kinds\nfrom tailrace.registry import KINDS\n"
        "def test_all():\n    for made in KINDS.values(): made()()\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/kinds.py", "(self): ...", "(self): return 1") == {"test_all"}


def test_module_found_by_name_is_reached(repository: Repository) -> None:
    files = {
        "src/tailrace/handlers/fetch.py": "def handle(): ...\n",
        "tests/unit/test_dispatch.py": "from importlib import import_module\n"
        "def test_it(): import_module(f'tailrace.handlers.{NAME}').handle()\nNAME = 'fetch'\n",
        "tests/unit/test_program.py": "PROGRAM = 'from tailrace.handlers.fetch import handle'\n"
        "def test_run(): run(PROGRAM)\n",
        "tests/unit/test_patched.py": "def test_patched(patch): patch.setattr('tailrace.handlers.fetch.handle', 1)\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/handlers/fetch.py", "...", "return 1") == {
        "test_it",
        "test_run",
        "test_patched",
    }


def test_module_used_as_a_value_is_reached_as_a_whole(repository: Repository) -> None:
    user = "from tailrace.storage import log\ndef test_it():\n    for name in vars(log): ...\n"
    repository.add({"tests/unit/test_it.py": user})
    assert repository.change(LOG, "def unused(): ...", "def unused(): return 1") == {"test_it"}


def test_program_of_a_subprocess_is_reached(repository: Repository) -> None:
    files = {
        "tests/support/kills/victim.py": "from tailrace.storage.names import name\n"
        "if __name__ == '__main__':\n    name(1)\n",
        "tests/unit/test_kills.py": "PROGRAM = Path(__file__).parent / 'kills' / 'victim.py'\n"
        "def test_it(): run(PROGRAM)\n",
    }
    repository.add(files)
    assert repository.change(NAMES, "'.log'", "'.dat'") == {"test_name", "test_it"}


COMMAND_LINE = {
    "src/tailrace/__main__.py": "from tailrace.cli.main import main\nmain()\n",
    "src/tailrace/cli/main.py": "from importlib import import_module\n"
    "COMMANDS = ('tailrace.cli.log', 'tailrace.cli.topic')\n"
    "def main(words=None):\n    for command in COMMANDS: import_module(command).register()\n",
    "src/tailrace/cli/topic.py": "def register(group): group.add_parser('topic', handler=run)\n"
    "def run(args):\n    from tailrace.cli import topic_run\n    topic_run.run(args)\n",
    "src/tailrace/cli/topic_run.py": "def run(args): ...\n",
    "src/tailrace/cli/log.py": "def register(group):\n    group.add_parser('log')\n    register_dump(group)\n"
    "def register_dump(group): group.add_parser('dump', handler=run)\n"
    "def run(args):\n    from tailrace.cli import dump_run\n    dump_run.run(args)\n",
    "src/tailrace/cli/dump_run.py": "def run(args): ...\n",
    "tests/unit/test_cli.py": "from tailrace.cli.main import main\n"
    "def test_topic(): main(['topic'])\n"
    "def test_dump(): main('log dump x'.split())\n"
    "def test_other_dump(): main(['dump'])\n"
    "def test_process(): run([python, '-m', 'tailrace', 'topic'])\n"
    "def test_name_alone(): find('tailrace')\n",
}


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("src/tailrace/cli/topic_run.py", {"test_topic", "test_process"}),
        ("src/tailrace/cli/dump_run.py", {"test_dump"}),
    ],
)
def test_command_is_reached_where_it_is_named(repository: Repository, path: str, selected: set[str]) -> None:
    repository.add(COMMAND_LINE)
    assert repository.change(path, "...", "return 1") == selected


def test_registration_of_commands_is_reached_by_every_command(repository: Repository) -> None:
    repository.add(COMMAND_LINE)
    assert {"test_topic", "test_dump", "test_process"} <= repository.change(
        "src/tailrace/cli/log.py", "group.add_parser('log')", "group.add_parser('log', help='logs')"
    )


FIXTURES = {
    "tests/conftest.py": "import pytest\npytest_plugins = ['my_plugin']\n"
    "@pytest.fixture\ndef client(broker): ...\n@pytest.fixture\ndef broker(): ...\n",
    "tests/support/my_plugin.py": "from tailrace.storage.names import name\ndef pytest_configure(): name(1)\n",
    "tests/unit/storage/conftest.py": "import pytest\n@pytest.fixture(autouse=True)\ndef clean(): ...\n"
    "@pytest.fixture\ndef files(): ...\n",
    "tests/unit/storage/test_storage.py": "import pytest\n@pytest.fixture\ndef broker(): return 1\n"
    "def test_client(client): ...\ndef test_plain(): ...\n@pytest.mark.usefixtures('files')\ndef test_files(): ...\n",
    "tests/unit/test_client.py": "def test_other_client(client): ...\ndef test_dynamic(request):\n"
    "    request.getfixturevalue('client')\n",
}


@pytest.mark.parametrize(
    ("path", "old", "new", "selected"),
    [
        (
            "tests/unit/storage/conftest.py",
            "clean(): ...",
            "clean(): return 1",
            {"test_client", "test_plain", "test_files"},
        ),
        ("tests/unit/storage/conftest.py", "files(): ...", "files(): return 1", {"test_files"}),
        (
            "tests/conftest.py",
            "client(broker): ...",
            "client(broker): return 1",
            {"test_client", "test_other_client", "test_dynamic"},
        ),
        (
            "tests/unit/storage/test_storage.py",
            "broker(): return 1",
            "broker(): ...",
            {"test_client", "test_plain", "test_files"},
        ),
    ],
)
def test_fixture_is_reached_by_its_users(
    repository: Repository, path: str, old: str, new: str, selected: set[str]
) -> None:
    repository.add(FIXTURES)
    assert repository.change(path, old, new) == selected


def test_inherited_tests_and_their_fixtures_are_reached(repository: Repository) -> None:
    base = """\
import pytest
class Cases:
    @pytest.fixture
    def filled(self, store): ...
    def test_it(self, filled): ...
"""
    files = {
        "tests/support/cases.py": base,
        "tests/unit/test_store.py": "import pytest\nfrom cases import Cases\n"
        "@pytest.fixture\ndef store(disk): ...\nclass TestStore(Cases): ...\n",
        "tests/unit/conftest.py": "import pytest\n@pytest.fixture\ndef disk(): ...\n",
    }
    repository.add(files)
    for path, old in (
        ("tests/support/cases.py", "def test_it(self, filled): ..."),
        ("tests/support/cases.py", "def filled(self, store): ..."),
        ("tests/unit/test_store.py", "def store(disk): ..."),
        ("tests/unit/conftest.py", "def disk(): ..."),
    ):
        assert repository.change(path, old, old.replace("...", "return 1")) == {"TestStore"}
        repository.commit()


def test_inherited_test_gets_the_fixtures_of_the_folder(repository: Repository) -> None:
    files = {
        "tests/support/cases.py": "class Cases:\n    def test_it(self, disk): ...\n",
        "tests/unit/test_store.py": "from cases import Cases\nclass TestStore(Cases): ...\n",
        "tests/unit/conftest.py": "import pytest\n@pytest.fixture\ndef disk(): ...\n",
    }
    repository.add(files)
    assert repository.change("tests/unit/conftest.py", "...", "return 1") == {"TestStore"}


def test_fixture_of_a_folder_that_overrides_is_reached(repository: Repository) -> None:
    repository.add({**FIXTURES, "tests/unit/conftest.py": "import pytest\n@pytest.fixture\ndef broker(): return 2\n"})
    selected = repository.change("tests/unit/conftest.py", "return 2", "return 3")
    assert {"test_other_client", "test_dynamic"} <= selected
    assert "test_plain" not in selected


def test_imported_fixture_is_reached(repository: Repository) -> None:
    files = {
        "tests/support/stores.py": "import pytest\n"
        "@pytest.fixture\ndef store(): ...\n@pytest.fixture\ndef other(): ...\n",
        "tests/unit/test_store.py": "from stores import store, other\ndef test_store(store): ...\n",
    }
    repository.add(files)
    assert repository.change("tests/support/stores.py", "store(): ...", "store(): return 1") == {"test_store"}
    repository.commit()
    assert repository.change("tests/support/stores.py", "other(): ...", "other(): return 1") == set()


def test_fixture_of_a_test_in_a_program_is_reached(repository: Repository) -> None:
    program = "def test_program(pytester): pytester.makepyfile('def test_it(client): ...')\n"
    repository.add({**FIXTURES, "tests/unit/test_program.py": program})
    assert "test_program" in repository.change("tests/conftest.py", "client(broker): ...", "client(broker): return 1")


def test_hook_of_a_plugin_is_reached_by_every_test(repository: Repository) -> None:
    repository.add(FIXTURES)
    assert len(repository.change(NAMES, "'.log'", "'.dat'")) == 8


DATA = {
    "tests/golden/kafka/batches.bin": "x",
    "tests/golden/kafka/topic-0/0.log": "x",
    "tests/unit/answers-4.3.1.json": "{}",
    "docs/log.md": "```python\nfrom tailrace.storage.names import name\n```\n",
    "docs/other.md": "Text.\n",
    "tests/unit/test_data.py": "ROOT = Path(__file__).parents[1]\n"
    "def test_golden(): ROOT / 'golden' / 'kafka'\n"
    "def test_one(): ROOT / 'golden' / 'kafka' / 'batches.bin'\n"
    "def test_glob(): ROOT.glob('answers-*.json')\n"
    "def test_page(): exec(ROOT / 'docs' / 'log.md')\n"
    "def test_text(): ROOT / 'docs' / 'log.md'\n",
}


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("tests/golden/kafka/batches.bin", {"test_golden", "test_one"}),
        ("tests/golden/kafka/topic-0/0.log", {"test_golden"}),
        ("tests/unit/answers-4.3.1.json", {"test_glob"}),
        ("docs/log.md", {"test_page", "test_text"}),
        ("Makefile", set()),
    ],
)
def test_data_file_selects_the_tests_that_name_it(repository: Repository, path: str, selected: set[str]) -> None:
    repository.add(DATA)
    repository.write({path: "other\n"})
    assert repository.selected() == selected


def test_code_of_a_page_is_reached_by_the_tests_that_execute_it(repository: Repository) -> None:
    repository.add(DATA)
    assert repository.change(NAMES, "'.log'", "'.dat'") == {"test_name", "test_page"}


@pytest.mark.parametrize("path", ["pyproject.toml", "docs/other.md", "tests/unit/unnamed.bin"])
def test_every_test_is_selected_when_the_effect_is_unknown(repository: Repository, path: str) -> None:
    repository.add({**DATA, "tests/unit/test_data.py": "def test_data(): ...\n"})
    repository.write({path: "other\n"})
    assert repository.find().selection.everything == path
    assert repository.selected() == EVERY_TEST | {"test_data"}


def test_reader_of_sources_is_always_selected(repository: Repository) -> None:
    reader = "tests/unit/test_import_direction.py"
    repository.add({reader: "def test_sources(): ...\n"})
    assert repository.change(LOG, "def unused(): ...", "def unused(): ...  # nothing") == {"test_sources"}


def test_names_of_a_lazy_package_lead_to_their_modules(repository: Repository) -> None:
    files = {
        "src/tailrace/spark/__init__.py": "from typing import TYPE_CHECKING\nfrom importlib import import_module\n"
        "if TYPE_CHECKING:\n    from tailrace.spark.reading import read\n    from tailrace.spark.writing import write\n"
        "MODULES = {'read': 'tailrace.spark.reading', 'write': 'tailrace.spark.writing'}\n"
        "def __getattr__(name): return getattr(import_module(MODULES[name]), name)\n",
        "src/tailrace/spark/reading.py": "def read(): ...\n",
        "src/tailrace/spark/writing.py": "def write(): ...\n",
        "tests/unit/test_spark.py": "from tailrace.spark import read\ndef test_read(): read()\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/spark/writing.py", "...", "return 1") == set()
    assert repository.change("src/tailrace/spark/reading.py", "...", "return 1") == {"test_read"}


def test_names_that_only_a_function_provides_lead_to_the_whole_module(repository: Repository) -> None:
    files = {
        "src/tailrace/lazy.py": "def __getattr__(name): return make(name)\ndef make(name): ...\ndef other(): ...\n",
        "tests/unit/test_lazy.py": "from tailrace.lazy import thing\ndef test_lazy(): thing()\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/lazy.py", "other(): ...", "other(): return 1") == {"test_lazy"}


def test_kernel_run_by_its_name_is_reached(repository: Repository) -> None:
    files = {
        "src/tailrace/record/kernels/__init__.py": "def interpreted(kernel): ...\nfor name in (): interpreted(name)\n",
        "src/tailrace/record/kernels/rows.py": "def rows(data): ...\n",
        "tests/unit/test_rows.py": "from tailrace.record.kernels import interpreted\n"
        "def test_rows(): interpreted('rows')\ndef test_other(): ...\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/record/kernels/rows.py", "...", "return 1") == {"test_rows"}


def test_kernel_declarations_select_the_users_of_the_kernels(repository: Repository) -> None:
    files = {
        "src/tailrace/record/kernels/crc.py": "def _crc(data): ...\n",
        "src/tailrace/record/kernels/rows.py": "def rows(data): return _crc(data)\n",
        "src/tailrace/record/kernels/rows.pxd": "from tailrace.record.kernels.crc cimport _crc\n",
        "tests/unit/test_rows.py": "from tailrace.record.kernels.rows import rows\ndef test_rows(): rows(b'')\n",
    }
    repository.add(files)
    assert repository.change("src/tailrace/record/kernels/crc.py", "...", "return 1") == {"test_rows"}
    repository.commit()
    assert repository.change("src/tailrace/record/kernels/rows.pxd", "cimport _crc", "cimport _crc, _fast") == {
        "test_rows"
    }
