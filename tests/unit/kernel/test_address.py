"""Sockets that listen: where, and how quickly what is written to a connection leaves."""

from __future__ import annotations

import socket

import pytest

from afl.kernel.address import is_loopback, listening_socket
from afl.kernel.errors import InputError


def test_a_connection_sends_small_writes_at_once() -> None:
    """Otherwise each response in two parts waits 40 ms for the client's delayed acknowledgment."""
    with listening_socket("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_named() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            InputError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"
        ):
            listening_socket("127.0.0.1", port)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_loopback_addresses(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "example.org", "::", "10.0.0.1", ""])
def test_addresses_that_others_can_reach(host: str) -> None:
    assert not is_loopback(host)
