"""The networks of cluster tests: a cut stalls one direction, healing lets it continue, and nothing is left behind."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from support.clusters.cluster_network import CLIENTS, ClusterNetwork
from support.clusters.namespaces import NAMESPACES, PREFIX, NamespaceNetwork, can_create_namespaces, remove_abandoned
from support.clusters.proxies import ProxyNetwork
from tailrace.config.voters import Address

PORT = 9000
SILENCE_SECONDS = 0.2


@pytest.fixture(params=["namespaces", "proxies"])
def network(request: pytest.FixtureRequest) -> Iterator[ClusterNetwork]:
    if request.param == "namespaces" and not can_create_namespaces():
        pytest.skip("network namespaces can be created by root on Linux only")
    network: ClusterNetwork = NamespaceNetwork() if request.param == "namespaces" else ProxyNetwork()
    network.add_host("server")
    yield network
    network.close()


@pytest.fixture
def ends(network: ClusterNetwork) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Of a connection from the clients to the server, in this order."""
    route = network.route("server", PORT)
    with ThreadPoolExecutor(2) as threads:  # the thread of the test stays where it is

        def listen() -> socket.socket:
            network.enter("server")
            return socket.create_server(endpoint(route.bound))

        def connect() -> socket.socket:
            network.enter(CLIENTS)
            return socket.create_connection(endpoint(route.advertised), 5)

        with closing(threads.submit(listen).result()) as listener, closing(threads.submit(connect).result()) as client:
            listener.settimeout(5)
            with closing(listener.accept()[0]) as server:
                yield client, server


def endpoint(address: Address) -> tuple[str, int]:
    return address.host, address.port


def receives(end: socket.socket, wait_s: float) -> bytes:
    end.settimeout(wait_s)
    try:
        return end.recv(100)
    except TimeoutError:
        return b""


def test_cut_direction_stalls_until_it_is_healed(
    network: ClusterNetwork, ends: tuple[socket.socket, socket.socket]
) -> None:
    client, server = ends
    client.sendall(b"request")
    assert receives(server, 5) == b"request"
    network.cut("server", CLIENTS)
    client.sendall(b"another")
    assert receives(server, 5) == b"another"
    server.sendall(b"response")
    assert receives(client, SILENCE_SECONDS) == b""
    network.heal()
    assert receives(client, 5) == b"response"


def test_proxies_delay_what_they_forward() -> None:
    with ExitStack() as opened:
        network = opened.enter_context(closing(ProxyNetwork()))
        route = network.route("server", PORT)
        listener = opened.enter_context(socket.create_server(endpoint(route.bound)))
        client = opened.enter_context(socket.create_connection(endpoint(route.advertised), 5))
        server = opened.enter_context(listener.accept()[0])
        network.delay_s = 2 * SILENCE_SECONDS
        client.sendall(b"late")
        assert receives(server, SILENCE_SECONDS) == b""
        assert receives(server, 5) == b"late"


def test_namespaces_of_ended_processes_are_removed() -> None:
    if not can_create_namespaces():
        pytest.skip("network namespaces can be created by root on Linux only")
    ended = subprocess.Popen(["true"])
    ended.wait()
    abandoned = f"{PREFIX}{ended.pid}-0-node-1"
    subprocess.run(["ip", "netns", "add", abandoned], check=True)
    network = NamespaceNetwork()
    left = {each.name for each in NAMESPACES.glob(f"{PREFIX}*")}
    network.close()
    remove_abandoned()
    assert abandoned not in left
    assert len(left) >= 2
    assert not list(NAMESPACES.glob(f"{PREFIX}{os.getpid()}-*"))
