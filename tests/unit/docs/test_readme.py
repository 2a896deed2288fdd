"""The example in the README does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[3] / "README.md"


def test_the_python_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(found.group(1), "README.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "0 1"
    assert printed[1:] == [
        "0 b'customer-7' b'two apples' ()",
        "1 b'customer-8' b'one pear' (('source', b'web'),)",
    ]
    assert (tmp_path / "orders-0" / "00000000000000000000.log").stat().st_size > 0
