"""A report in a real browser: Chromium opens it, paints its plots, runs its script, and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.audit.sample_reports import audit_report, topic_stats
from support.browser import png_pixels
from support.browser.chromium import HeadlessBrowser, program
from support.browser.png_pixels import Color
from tailrace.spark.auditing.report import audit_page
from tailrace.spark.report.html import policy, write
from tailrace.spark.statistics.report import stats_page

WIDE, HIGH = 1280, 3900
LIGHT_SERIES = ("2a6fd6", "12a594", "e8a317", "8a55d7", "e0567a", "7d8b97")
DARK_SERIES = ("5b9bf3", "2cc5b2", "f0b740", "ae86f0", "f07f9d", "8b99a6")
LIGHT_ERROR, DARK_ERROR = "cf3131", "ff7a72"
LIGHT_PAGE, DARK_PAGE = "f4f6f8", "0e141a"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeadlessBrowser]:
    if program() is None:
        reason = "Chromium is not installed (Debian: apt-get install chromium), so no report is looked at"
        print(reason)
        pytest.skip(reason)
    with HeadlessBrowser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports") / "audit.html"
    write(audit_page(audit_report()), str(path))
    return path


@pytest.fixture(scope="module")
def stats_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reports") / "stats.html"
    write(stats_page(topic_stats()), str(path))
    return path


def color(written: str) -> Color:
    return int(written[:2], 16), int(written[2:4], 16), int(written[4:], 16)


@pytest.mark.parametrize(
    ("scheme", "page", "error", "series"),
    [("light", LIGHT_PAGE, LIGHT_ERROR, LIGHT_SERIES), ("dark", DARK_PAGE, DARK_ERROR, DARK_SERIES)],
)
def test_plots_of_an_audit_are_painted(
    browser: HeadlessBrowser,
    audit_file: Path,
    tmp_path: Path,
    scheme: str,
    page: str,
    error: str,
    series: tuple[str, ...],
) -> None:
    browser.open(audit_file, width=WIDE, height=HIGH, scheme=scheme)
    seen = png_pixels.read(browser.shot(tmp_path / "audit.png"))
    assert (seen.width, seen.height) == (WIDE, HIGH)
    colors = seen.colors()
    assert colors.most_common(2)[0][1] < WIDE * HIGH * 0.9
    assert colors[color(page)] > 500_000
    assert colors[color(error)] > 8000  # bars of the rules that found errors
    for each in series:
        assert colors[color(each)] > 1000, each  # an area of the size over time
    assert colors[color(series[0])] > 60_000  # columns of histograms, and bars


def test_each_chart_is_painted_where_it_stands(browser: HeadlessBrowser, audit_file: Path, tmp_path: Path) -> None:
    browser.open(audit_file, width=WIDE, height=HIGH)
    seen = png_pixels.read(browser.shot(tmp_path / "audit.png"))
    boxes = browser.run(
        "Array.from(document.querySelectorAll('svg.plot')).map((plot) => { const box = plot.getBoundingClientRect();"
        " return [plot.getAttribute('aria-label'), box.left, box.top, box.right, box.bottom]; })"
    )
    assert [box[0] for box in boxes] == [
        "Size over time",
        "Bytes a second",
        "Records a second",
        "Batch sizes",
        "Records in a batch",
        "Key skew",
    ]
    for name, left, top, right, bottom in boxes:
        part = seen.part(int(left), int(top), int(right), int(bottom))
        found = part.columns_of(color(LIGHT_SERIES[0]))
        assert len(found) > 0.3 * (right - left), name
        assert max(found) - min(found) > 0.4 * (right - left), name


def test_nothing_is_asked_of_anybody(browser: HeadlessBrowser, audit_file: Path, stats_file: Path) -> None:
    for page in (audit_file, stats_file):
        browser.open(page, width=WIDE, height=900)
        asked = [event["request"]["url"] for event in browser.seen("Network.requestWillBeSent")]
        assert asked == [page.as_uri()]
        assert browser.seen("Log.entryAdded") == []
        assert browser.seen("Runtime.exceptionThrown") == []
        assert browser.seen("Audits.issueAdded") == []


def test_what_a_page_would_ask_for_is_seen_and_refused(
    browser: HeadlessBrowser, audit_file: Path, tmp_path: Path
) -> None:
    """That the test above can fail: an image that got into the page is refused by the page's own policy."""
    page = tmp_path / "harmed.html"
    image = '<img src="http://127.0.0.1:9/pixel"/>'
    page.write_text(
        audit_file.read_text().replace("</main>", f"{image}<script>document.title = 'harmed'</script></main>")
    )
    browser.open(page, width=WIDE, height=900)
    refused = [entry["entry"]["text"] for entry in browser.seen("Log.entryAdded")]
    assert len([words for words in refused if "Content Security Policy" in words]) == 2, refused
    assert browser.run("document.title") == "Audit of 3 places"

    page.write_text(page.read_text().replace("Content-Security-Policy", "X"))
    browser.open(page, width=WIDE, height=900)
    asked = [event["request"]["url"] for event in browser.seen("Network.requestWillBeSent")]
    assert "http://127.0.0.1:9/pixel" in asked
    assert browser.run("document.title") == "harmed"


def test_text_of_logs_is_shown_as_it_stands(browser: HeadlessBrowser, audit_file: Path) -> None:
    browser.open(audit_file, width=WIDE, height=900)
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert "<img src=x onerror=alert(1)>-0" in browser.run("document.querySelector('tbody').innerText")
    assert browser.run("document.querySelector('meta[http-equiv]').content") == policy()


def test_findings_are_filtered_and_sorted(browser: HeadlessBrowser, audit_file: Path) -> None:
    browser.open(audit_file, width=WIDE, height=900)
    visible = "Array.from(document.querySelector('tbody').rows).filter((row) => !row.hidden)"
    everything = browser.run(f"{visible}.length")
    assert browser.run("document.querySelector('.count').textContent") == f"{everything} rows"

    typed = (
        "const field = document.querySelector('input'); field.value = '{}'; field.dispatchEvent(new Event('input'));"
    )
    browser.run("(() => {" + typed.format("CRC broker-1") + "})()")
    assert browser.run(f"{visible}.every((row) => /crc/i.test(row.innerText) && /broker-1/.test(row.innerText))")
    assert 0 < browser.run(f"{visible}.length") < everything
    browser.run("(() => {" + typed.format("") + "})()")

    browser.run("document.querySelector('button[data-tone=warning]').click()")
    assert browser.run(f"{visible}.every((row) => row.dataset.tone === 'warning')")
    assert browser.run(f"{visible}.length") == 11
    browser.run("document.querySelector('button[data-tone=warning]').click()")

    offsets = f"{visible}.map((row) => Number(row.cells[3].dataset.sort))"
    browser.run("document.querySelectorAll('th')[3].click()")
    falling = browser.run(offsets)
    assert falling == sorted(falling, reverse=True)
    browser.run("document.querySelectorAll('th')[3].click()")
    assert browser.run(offsets) == falling[::-1]


def test_numbers_are_told_where_the_pointer_is(browser: HeadlessBrowser, audit_file: Path) -> None:
    browser.open(audit_file, width=WIDE, height=HIGH)
    x, y = browser.run(
        "(() => { const box = document.querySelector('svg.plot').getBoundingClientRect();"
        " return [box.left + box.width / 2, box.top + 60]; })()"
    )
    browser.point_at(x, y)
    words = browser.run("document.querySelector('.tip').innerText").splitlines()
    assert words[0].startswith("2026-11-")
    assert words[1].startswith("page-views: ")
    assert words[1].endswith("GiB")


@pytest.mark.parametrize("width", [320, 390, 700, 1920])
def test_a_page_fits_any_width(browser: HeadlessBrowser, audit_file: Path, stats_file: Path, width: int) -> None:
    """Nothing sticks out, so nobody has to scroll sideways; text is never smaller than can be read."""
    for page in (audit_file, stats_file):
        browser.open(page, width=width, height=900)
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run(
            "Array.from(document.querySelectorAll('svg text')).every((text) =>"
            " parseFloat(getComputedStyle(text).fontSize) >= 11)"
        )
        overlapping = browser.run(
            "Array.from(document.querySelectorAll('svg.plot')).filter((plot) => {"
            " const boxes = Array.from(plot.querySelectorAll('.below')).map((text) => text.getBoundingClientRect())"
            "   .filter((box) => box.width > 0);"
            " return boxes.some((box, at) => at > 0 && box.left < boxes[at - 1].right); })"
            ".map((plot) => plot.getAttribute('aria-label'))"
        )
        assert overlapping == []


def test_the_page_of_a_topic_is_painted(browser: HeadlessBrowser, stats_file: Path, tmp_path: Path) -> None:
    browser.open(stats_file, width=WIDE, height=HIGH)
    colors = png_pixels.read(browser.shot(tmp_path / "stats.png")).colors()
    assert colors[color(LIGHT_SERIES[0])] > 100_000
    assert browser.run("document.querySelectorAll('svg.plot').length") == 7
    assert browser.run("document.querySelector('h1').innerText") == "orders"
