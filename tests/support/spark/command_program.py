"""Commands of `tailrace pipeline` one after the other in one process, and so in one Spark session: MASTER COMMANDS.

COMMANDS is JSON, a list of lists of arguments. Prints JSON: for each its exit code and the items that it printed.
"""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout

from tailrace.cli.main import main


def run(master: str, commands: str) -> list[tuple[int, list[object]]]:
    found = []
    for arguments in json.loads(commands):
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = main(["pipeline", *arguments, "--json", "--master", master])
        found.append((code, [json.loads(line) for line in printed.getvalue().splitlines()]))
    return found


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:])))
