"""The space-time diagram of an event log."""

from __future__ import annotations

from xml.etree import ElementTree

from support.universe.endpoints import Pair
from tailrace.sim.diagram import MAX_EVENTS, space_time_diagram
from tailrace.sim.event_log import Event

NAMES = ["client", "server"]


def svg_of(html: str) -> ElementTree.Element:
    """The picture; it is well-formed XML."""
    begin = html.rindex("<svg")
    return ElementTree.fromstring(html[begin : html.index("</svg>", begin) + len("</svg>")])


def lines(svg: ElementTree.Element, style: str) -> list[dict[str, str]]:
    return [line.attrib for line in svg.iter("line") if line.attrib["class"] == style]


def scenario() -> Pair:
    pair = Pair()
    end, _ = pair.connected()
    pair.universe.network.link("client", "server").is_cut = True
    end.stream.send([b"lost"])
    pair.universe.run_for(500)
    pair.universe.network.heal()
    pair.server.pause()
    pair.universe.run_for(2_000)
    pair.server.resume()
    pair.server.kill()
    pair.universe.run_for(5_000)
    pair.server.start()
    pair.universe.run_for(1)
    return pair


def test_messages_are_arrows_and_lives_are_lines() -> None:
    pair = scenario()
    events = list(pair.universe.log.events)
    html = space_time_diagram(events, NAMES, "a <title>", "and more")
    assert "a &lt;title&gt;" in html
    assert "http" not in html.replace("http://www.w3.org", ""), "the file needs nothing else"
    svg = svg_of(html)
    counts = {style: len(lines(svg, style)) for style in ("message", "lost", "paused", "down", "alive")}
    assert counts["message"] == sum(event.kind == "message" for event in events)
    assert counts["lost"] == sum(event.kind == "lost" for event in events) > 0
    assert counts["paused"] == 1
    assert counts["down"] == 3, "each machine before its start, and the killed one"
    assert counts["alive"] == 3
    texts = "".join(element.text or "" for element in svg.iter("text"))
    assert "s pass" in texts
    assert "end process 1 killed" in texts


def test_later_events_are_lower() -> None:
    svg = svg_of(space_time_diagram(scenario().universe.log.events, NAMES, "order"))
    for line in lines(svg, "message"):
        assert float(line["y1"]) < float(line["y2"])
    heights = [float(element.attrib["y"]) for element in svg.iter("text") if element.attrib.get("class") == "time"]
    assert heights == sorted(heights)
    assert len(set(heights)) == len(heights)


def test_the_number_of_events_is_bounded() -> None:
    events = [Event(number, number, "client", "log", "x") for number in range(MAX_EVENTS + 10)]
    html = space_time_diagram(events, NAMES, "long")
    assert html.count("<circle") == MAX_EVENTS
    assert "events 10 to" in html


def test_no_events() -> None:
    assert "no events" in space_time_diagram([], NAMES, "empty")


def test_named_messages_have_labels() -> None:
    events = [
        Event(1, 10, "server", "message", "client → server Fetch v12 #7, 97 bytes crc 0", "client", 5),
        Event(2, 30, "client", "message", "server → client response #7, 97 bytes crc 0", "server", 20),
        Event(3, 50, "client", "message", "server → client 97 bytes crc 0", "server", 40),
    ]
    texts = [element.text for element in svg_of(space_time_diagram(events, NAMES, "names")).iter("text")]
    assert texts == ["Fetch v12 #7", "response #7"]


def test_a_failure_is_below_the_last_event() -> None:
    svg = svg_of(space_time_diagram(scenario().universe.log.events, NAMES, "failed", "Violation: 1 < 2"))
    rows = {element.text: float(element.attrib["y"]) for element in svg.iter("text")}
    assert max(rows, key=lambda text: rows[text]) == "✗ Violation: 1 < 2"


def test_labels_of_responses_that_leave_together_do_not_cover_each_other() -> None:
    events = [
        Event(1, 1_000, "client", "message", "server → client response #1, 60 bytes", "server", 500),
        Event(2, 1_010, "client", "message", "server → client response #2, 60 bytes", "server", 500),
    ]
    svg = svg_of(space_time_diagram(events, NAMES, "labels"))
    first, second = (float(each.attrib["x"]) for each in svg.iter("text") if each.attrib["class"] == "what")
    assert abs(first - second) >= 70
