"""Programs that a test starts can be interrupted, also when the run itself is in the background of a shell."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
PROGRAM = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def test_a_run_in_the_background_starts_programs_that_sigint_ends(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["suite.interrupts"]')
    pytester.makepyfile(
        f"""
        import subprocess, sys

        def test_program():
            assert subprocess.check_output([sys.executable, "-c", {PROGRAM!r}], text=True) == "False\\n"
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", f"pythonpath={TESTS}", "-q"]
    ignored = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    run = subprocess.run([sys.executable, "-c", ignored, *command], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    plain = [sys.executable, "-c", ignored, sys.executable, "-c", PROGRAM]
    assert subprocess.check_output(plain, text=True) == "True\n"
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
