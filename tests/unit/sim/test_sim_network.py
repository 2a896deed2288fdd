"""Each rule of the simulated network on its own."""

from __future__ import annotations

import errno

import pytest

from support.universe.endpoints import PORT, Pair
from tailrace.sim.foreign_port import NOT_KAFKA, ForeignPort, Manners
from tailrace.sim.network import BACKLOG
from tailrace.sim.pipe import GIVE_UP_US, WINDOW_BYTES


def test_bytes_come_back_in_order_whatever_the_chunks() -> None:
    splits = set()
    for seed in range(20):
        pair = Pair(seed)
        pair.universe.network.rules.split_probability = 0.5
        end = pair.connect()
        end.stream.send([b"before ", b"connected,"])
        pair.universe.run_for(20)
        sent = b"".join(b"%d," % number for number in range(500))
        end.stream.send([sent])
        pair.universe.run_for(1_000)
        assert end.events == ["connected"]
        assert bytes(end.data) == b"before connected," + sent
        splits.add(len(end.arrivals))
    assert len(splits) > 5


def test_callbacks_never_come_from_within_a_call() -> None:
    pair = Pair()
    end = pair.connect()
    assert end.events == []
    pair.universe.run_for(50)
    end.stream.close()
    pair.universe.run_for(50)
    assert end.events == ["connected"], "the owner's own close is not notified"
    assert pair.program.ends[0].events == ["CLOSED"]


def test_delays_follow_the_link() -> None:
    pair = Pair()
    end, _ = pair.connected()
    for link in pair.universe.network.between(["client"], ["server"]):
        link.rules.min_delay_us, link.rules.mean_extra_delay_us = 40_000, 0
    began_us = pair.universe.time.now_us
    end.stream.send([b"x"])
    pair.universe.run_for(1_000)
    assert end.arrivals == [(began_us + 80_000, 1)]


def test_bandwidth_delays_large_messages() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    link = pair.universe.network.link("client", "server")
    link.rules.bytes_per_second = 100_000
    began_us = pair.universe.time.now_us
    end.stream.send([bytes(50_000)])
    pair.universe.run_for(2_000)
    assert len(other.data) == 50_000
    assert 500_000 <= other.arrivals[-1][0] - began_us < 600_000


def test_a_loss_stalls_the_connection_and_keeps_the_order() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    link = pair.universe.network.link("client", "server")
    link.rules.loss_probability = 0.3
    sent = b"".join(b"%d," % number for number in range(300))
    began_us = pair.universe.time.now_us
    for at in range(0, len(sent), 10):
        end.stream.send([sent[at : at + 10]])
    pair.universe.run_for(400_000)
    assert bytes(other.data) == sent
    assert other.arrivals[-1][0] - began_us > 200_000


def test_connections_are_not_ordered_among_each_other() -> None:
    """A request on an old connection arrives after one that was sent later on a new one."""
    pair = Pair(is_echo=False)
    first, _ = pair.connected()
    link = pair.universe.network.link("client", "server")
    link.is_cut = True
    first.stream.send([b"old"])
    pair.universe.run_for(100)
    link.is_cut = False
    second, _ = pair.connected()
    second.stream.send([b"new"])
    pair.universe.run_for(3_000)
    old, new = pair.program.ends
    assert (bytes(old.data), bytes(new.data)) == (b"old", b"new")
    assert old.arrivals[0][0] > new.arrivals[0][0]


def test_a_partition_is_silence_and_heals() -> None:
    pair = Pair()
    end, other = pair.connected()
    for link in pair.universe.network.between(["client"], ["server"]):
        link.is_cut = True
    end.stream.send([b"ping"])
    pair.universe.run_for(30_000)
    assert (end.events, other.events, bytes(other.data)) == (["connected"], [], b"")
    pair.universe.network.heal()
    pair.universe.run_for(60_000)
    assert bytes(end.data) == b"ping"


def test_a_sender_gives_up_after_a_long_partition_and_the_other_side_stays_half_open() -> None:
    pair = Pair()
    end, other = pair.connected()
    pair.universe.network.link("client", "server").is_cut = True
    end.stream.send([b"ping"])
    pair.universe.run_for(GIVE_UP_US // 1000 + 200_000)
    assert end.events == ["connected", "RESET"]
    assert other.events == []
    pair.universe.network.heal()
    other.stream.send([b"is it there"])
    pair.universe.run_for(1_000)
    assert other.events == ["RESET"]


def test_an_asymmetric_partition_delivers_one_way() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    pair.universe.network.link("server", "client").is_cut = True
    end.stream.send([b"ping"])
    other.stream.send([b"pong"])
    pair.universe.run_for(10_000)
    assert (bytes(other.data), bytes(end.data)) == (b"ping", b"")
    pair.universe.run_for(GIVE_UP_US // 1000 + 200_000)
    assert end.events == ["connected", "RESET"], "no acknowledgement came"


def test_connecting_to_silence_is_unreachable_in_time() -> None:
    for prepare in ("cut there", "cut back", "off"):
        pair = Pair()
        if prepare == "cut there":
            pair.universe.network.link("client", "server").is_cut = True
        elif prepare == "cut back":
            pair.universe.network.link("server", "client").is_cut = True
        else:
            pair.server.lose_power()
        end = pair.connect(timeout_ms=5_000)
        pair.universe.run_for(4_999)
        assert end.events == []
        pair.universe.run_for(2)
        assert end.events == ["UNREACHABLE"]
    end = pair.connect("nowhere")
    pair.universe.run_for(10)
    assert end.events == ["UNREACHABLE"]


def test_connecting_is_tried_again_while_there_is_time() -> None:
    pair = Pair()
    link = pair.universe.network.link("client", "server")
    link.is_cut = True
    end = pair.connect(timeout_ms=10_000)
    pair.universe.run_for(2_500)
    link.is_cut = False
    pair.universe.run_for(1_000)
    assert end.events == ["connected"]


def test_refusals() -> None:
    pair = Pair()
    nothing = pair.connect(port=1)
    pair.universe.network.link("client", "server").rejected_ports[PORT] = None
    port = pair.connect()
    pair.universe.network.heal()
    pair.universe.network.link("client", "server").is_rejecting = True
    host = pair.connect()
    pair.universe.run_for(10)
    assert [end.events for end in (nothing, port, host)] == [["REFUSED"]] * 3
    assert pair.server.is_running, "a firewall refuses although the process lives"
    pair.universe.network.heal()
    pair.server.kill()
    end = pair.connect()
    pair.universe.run_for(10)
    assert end.events == ["REFUSED"]


def test_a_kill_closes_connections_and_power_loss_does_not() -> None:
    pair = Pair()
    end, _ = pair.connected()
    pair.server.kill()
    pair.universe.run_for(10)
    assert end.events == ["connected", "CLOSED"]
    pair.server.start()
    end, _ = pair.connected()
    pair.server.lose_power()
    end.stream.send([b"ping"])
    pair.universe.run_for(5_000)
    assert end.events == ["connected"]
    pair.server.power_up()
    pair.universe.run_for(10_000)
    assert end.events == ["connected", "RESET"], "the host is back and knows nothing of the connection"


def test_what_was_sent_before_a_kill_arrives() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    other.stream.send([b"last words"])
    pair.server.kill()
    pair.universe.run_for(10)
    assert (bytes(end.data), end.events) == (b"last words", ["connected", "CLOSED"])


def test_a_kernel_without_power_sends_nothing_again() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    pair.universe.network.link("server", "client").is_cut = True
    other.stream.send([b"last words"])
    pair.server.kill()
    pair.universe.run_for(1_000)
    pair.server.lose_power()
    pair.universe.network.heal()
    pair.server.power_up()
    pair.universe.run_for(10_000)
    assert (bytes(end.data), end.events) == (b"", ["connected"]), "the connection stays half-open"


def test_a_kill_with_unread_bytes_is_a_reset() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    other.stream.set_reading(False)
    end.stream.send([b"unread"])
    pair.universe.run_for(10)
    pair.server.kill()
    pair.universe.run_for(10)
    assert end.events == ["connected", "RESET"]


def test_sending_to_a_closed_end_is_a_reset() -> None:
    pair = Pair()
    end, other = pair.connected()
    pair.universe.network.link("server", "client").rules.min_delay_us = 50_000
    other.stream.close()
    end.stream.send([b"too late"])
    pair.universe.run_for(1_000)
    assert end.events[1] in ("RESET", "CLOSED")
    assert bytes(end.data) == b""


def test_a_middlebox_resets_both_sides() -> None:
    pair = Pair()
    end, other = pair.connected()
    assert pair.universe.network.reset_connections("client", "server") == 2
    pair.universe.run_for(10)
    assert (end.events, other.events) == (["connected", "RESET"], ["RESET"])


def test_buffers_are_bounded_and_the_rest_waits() -> None:
    pair = Pair(is_echo=False)
    end, other = pair.connected()
    other.stream.set_reading(False)
    sent = bytes(3 * WINDOW_BYTES)
    drained: list[int] = []
    end.stream.send([sent])
    end.stream.when_drained = lambda: drained.append(1)
    pair.universe.run_for(1_000)
    assert other.stream.inbox_bytes == WINDOW_BYTES
    assert end.stream.unsent_bytes == 2 * WINDOW_BYTES
    assert drained == []
    other.stream.set_reading(True)
    pair.universe.run_for(1_000)
    assert (len(other.data), end.stream.unsent_bytes, drained) == (len(sent), 0, [1])


def test_a_paused_process_is_connected_to_and_answers_late() -> None:
    pair = Pair()
    pair.server.pause()
    end = pair.connect()
    end.stream.send([b"ping"])
    pair.universe.run_for(60_000)
    assert (end.events, bytes(end.data)) == (["connected"], b"")
    pair.server.resume()
    pair.universe.run_for(10)
    assert bytes(end.data) == b"ping"


def test_the_backlog_is_bounded() -> None:
    pair = Pair()
    pair.server.pause()
    ends = [pair.connect(timeout_ms=5_000) for _ in range(BACKLOG + 5)]
    pair.universe.run_for(20)
    assert sum(end.events == ["connected"] for end in ends) >= BACKLOG
    late = pair.connect(timeout_ms=5_000)
    pair.universe.run_for(6_000)
    assert late.events == ["UNREACHABLE"]


def test_a_port_of_another_program() -> None:
    pair = Pair()
    pair.server.kill()
    silent = ForeignPort(pair.server, PORT, Manners.SILENT)
    with pytest.raises(OSError, match="in use") as raised:
        ForeignPort(pair.server, PORT, Manners.CLOSING)
    assert raised.value.errno == errno.EADDRINUSE
    pair.server.start()
    assert not pair.server.is_running, "its port is taken"
    end = pair.connect()
    end.stream.send([bytes(2 * WINDOW_BYTES)])
    pair.universe.run_for(60_000)
    assert (end.events, bytes(end.data)) == (["connected"], b"")
    silent.release()
    pair.universe.run_for(100)
    assert end.events[1] == "RESET"
    closing = ForeignPort(pair.server, PORT, Manners.CLOSING)
    end = pair.connect()
    pair.universe.run_for(10)
    assert end.events == ["connected", "CLOSED"]
    closing.release()
    ForeignPort(pair.server, PORT, Manners.GARBAGE)
    end = pair.connect()
    end.stream.send([b"ping"])
    pair.universe.run_for(10)
    assert bytes(end.data) == NOT_KAFKA
    pair.server.lose_power()
    pair.server.power_up()
    assert pair.server.is_running, "the other program does not come back with the power"


def test_a_machine_reaches_itself() -> None:
    pair = Pair()
    pair.client, pair.server = pair.server, pair.client
    for host in ("localhost", "server"):
        end = pair.connect(host)
        end.stream.send([b"ping"])
        pair.universe.run_for(10)
        assert (end.events, bytes(end.data)) == (["connected"], b"ping")
