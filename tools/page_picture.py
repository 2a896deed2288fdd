"""Pictures of HTML pages, as Chromium shows them, for docs/images."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def take(page: Path, picture: Path, width_px: int, height_px: int) -> None:
    """Write a PNG file of the upper left corner of a page."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("error: Chromium is not installed\nhint: apt-get install chromium")
    with tempfile.TemporaryDirectory() as profile:
        switches = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}")
        size = f"--window-size={width_px},{height_px}"
        subprocess.run(
            [browser, *switches, size, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True
        )
