"""Addresses that only this machine can reach, and others; sockets that listen there."""

from __future__ import annotations

import ipaddress
import socket

from afl.kernel.errors import InputError

_BACKLOG = 1024


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone; a name other than `localhost` counts as one of others."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def listening_socket(host: str, port: int) -> socket.socket:
    """A TCP socket that listens there; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    # Accepted connections inherit it. asyncio sets it only where a socket's protocol is given; without it a
    # response that is written in two parts waits 40 ms for the client's delayed acknowledgment.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
