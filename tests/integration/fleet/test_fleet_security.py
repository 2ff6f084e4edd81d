"""Keys: which addresses need them, who gets in, and what a stranger gets, which is nothing."""

from __future__ import annotations

import asyncio
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import zmq
from support.fleet_agents import running_agent
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import AsyncClient, Client
from afl.fleet.errors import KeyFileError, PrincipalAway
from afl.fleet.principal.service import Principal, open_database
from afl.fleet.protocol import LogFrame
from afl.fleet.requests import GetLogs, GetRun, ListAgents, Ping, RunWorkflow
from afl.fleet.security import (
    ClientKeys,
    check_bind,
    load_client_keys,
    load_principal_keys,
    make_keys,
)
from afl.fleet.settings import FleetSettings
from afl.kernel.address import is_loopback


@pytest.fixture(scope="module")
def principal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrincipalProcess]:
    """One with keys, on every address of the machine."""
    folder = tmp_path_factory.mktemp("principal")
    make_keys(folder / "data" / "keys")
    with running_principal(folder, CDKTR_PRINCIPAL_HOST="0.0.0.0") as principal:
        yield principal


def impatient(settings: FleetSettings) -> FleetSettings:
    return replace(settings, default_zmq_timeout_ms=500)


def test_who_has_the_keys_is_let_in(principal: PrincipalProcess) -> None:
    with Client(principal.settings) as client:
        assert client.call(Ping()) is None

    async def ask() -> None:
        async with AsyncClient(principal.settings) as client:
            await client.call(Ping())

    asyncio.run(ask())


def test_no_key_and_a_wrong_key_get_nothing(principal: PrincipalProcess, tmp_path: Path) -> None:
    bare = replace(impatient(principal.settings), keys_directory=str(tmp_path / "none"))
    with Client(bare) as client, pytest.raises(PrincipalAway, match="does not answer"):
        client.call(Ping())
    with Client(bare, _stranger(principal)) as client, pytest.raises(PrincipalAway):
        client.call(Ping())


def test_an_agent_with_a_wrong_key_gets_no_run(principal: PrincipalProcess, tmp_path: Path) -> None:
    make_keys(tmp_path / "keys")
    known = (principal.settings.keys_folder / "principal.key").read_bytes()
    (tmp_path / "keys" / "principal.key").write_bytes(known)
    with Client(principal.settings) as client:
        run_id = client.call(RunWorkflow(workflow_id="hello")).run_id
        with running_agent(principal.settings, tmp_path, CDKTR_RETRY_ATTEMPTS="1") as agent:
            assert agent.process.wait() == 1
            assert "Failed to register with principal" in agent.log
        assert client.call(GetRun(run_id)).run.epoch == 0  # nobody was ever given it
        assert client.call(ListAgents()) == []


def test_a_key_that_is_allowed_later_counts_at_once(principal: PrincipalProcess, tmp_path: Path) -> None:
    make_keys(tmp_path / "other")
    ours = principal.settings.keys_folder
    (tmp_path / "other" / "principal.key").write_bytes((ours / "principal.key").read_bytes())
    (ours / "allowed" / "broken.key").write_text("nonsense")
    for number, letter in enumerate("~#"):  # no letter of a key, and one too many of the largest
        text = f'    public-key = "{letter * 40}"\n'
        (ours / "allowed" / f"damaged{number}.key").write_text(text)
    settings = replace(principal.settings, keys_directory=str(tmp_path / "other"))
    with Client(impatient(settings)) as client, pytest.raises(PrincipalAway):
        client.call(Ping())
    (ours / "allowed" / "other.key").write_bytes((tmp_path / "other" / "client.key").read_bytes())
    with Client(settings) as client:
        assert client.call(Ping()) is None


def test_the_log_sockets_are_closed_to_strangers_too(principal: PrincipalProcess) -> None:
    line = LogFrame("w", "W", "strange-run", "T", "t", 1, "INFO", "x")
    settings, stranger = principal.settings, _stranger(principal)
    with zmq.Context() as context, context.socket(zmq.PUSH) as push, context.socket(zmq.SUB) as sub:
        for peer, port in ((push, settings.logs_listening_port), (sub, settings.logs_publishing_port)):
            peer.setsockopt(zmq.LINGER, 0)
            peer.setsockopt(zmq.SNDTIMEO, 0)
            stranger.secure(peer)
            peer.connect(settings.address(port))
        sub.setsockopt(zmq.SUBSCRIBE, b"")
        with pytest.raises(zmq.Again):  # no connection ever comes about that could take it
            for _ in range(2000):
                push.send(line.frame())
        assert not sub.poll(500)
    with Client(settings) as client:
        assert client.call(GetLogs(run_id="strange-run")).lines == []


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01"


def greeting(mechanism: bytes) -> bytes:
    """How a peer of ZMTP 3.1 begins."""
    return GREETING + mechanism.ljust(20, b"\0") + bytes(32)


def command(name: bytes, body: bytes) -> bytes:
    content = bytes([len(name)]) + name + body
    return b"\x06" + len(content).to_bytes(8, "big") + content


HANDSHAKES = {
    "nothing": b"",
    "no zmtp": b"GET / HTTP/1.1\r\n\r\n",
    "noise": bytes(range(256)) * 40,
    "half a greeting": greeting(b"CURVE")[:30],
    "another mechanism": greeting(b"NULL") + command(b"READY", b""),
    "a password": greeting(b"PLAIN") + command(b"HELLO", b"\4root\0"),
    "an unknown mechanism": greeting(b"WHATEVER"),
    "hello too short": greeting(b"CURVE") + command(b"HELLO", b"\1\0"),
    "hello of noise": greeting(b"CURVE") + command(b"HELLO", b"\1\0" + b"\xa5" * 192),
    "initiate before hello": greeting(b"CURVE") + command(b"INITIATE", b"\xa5" * 300),
    "a huge command": greeting(b"CURVE") + b"\x06" + (2**63 - 1).to_bytes(8, "big") + b"\5HELLO",
}


@pytest.mark.parametrize("said", HANDSHAKES.values(), ids=HANDSHAKES)
def test_handshakes_that_are_none_disturb_nobody(principal: PrincipalProcess, said: bytes) -> None:
    settings = principal.settings
    ports = (settings.principal_port, settings.logs_listening_port, settings.logs_publishing_port)
    with ExitStack() as stack:
        for port in ports * 10:
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):  # it may hang up on us at once
                link.sendall(said)
        with Client(settings) as client:  # while all of them are still there
            assert client.call(Ping()) is None


@pytest.mark.parametrize("spoilt", ["public", "secret", "principal"])
def test_a_pair_that_is_none_gets_nothing(principal: PrincipalProcess, spoilt: str) -> None:
    """A public key of somebody else, a secret that does not belong to it, another principal's key."""
    known = load_client_keys(principal.settings.keys_folder)
    assert known is not None
    public, secret = zmq.curve_keypair()
    keys = replace(known, **{spoilt: secret if spoilt == "secret" else public})
    with (
        Client(impatient(principal.settings), keys) as client,
        pytest.raises(PrincipalAway, match="does not answer"),
    ):
        client.call(Ping())
    with Client(principal.settings) as client:
        assert client.call(Ping()) is None


def _stranger(principal: PrincipalProcess) -> ClientKeys:
    """Knows the principal's public key, which is no secret, and has a pair of its own making."""
    known = load_client_keys(principal.settings.keys_folder)
    assert known is not None
    public, secret = zmq.curve_keypair()
    return ClientKeys(public, secret, known.principal)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "*", "example.org", "::"])
def test_a_public_address_without_keys_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="afl fleet keys"):
        check_bind(host, None, insecure=False)
    check_bind(host, None, insecure=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1", "[::1]"])
def test_this_machine_alone_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    check_bind(host, None, insecure=False)


def test_a_principal_refuses_a_public_address(tmp_path: Path) -> None:
    settings = FleetSettings(
        principal_host="0.0.0.0",
        principal_port=0,
        logs_listening_port=0,
        logs_publishing_port=0,
        app_data_directory=str(tmp_path),
        db_path=str(tmp_path / "p.db"),
    )
    with open_database(settings) as database, pytest.raises(KeyFileError, match="other machines"):
        Principal(settings, database)
    variables = {
        "CDKTR_PRINCIPAL_HOST": "0.0.0.0",
        "CDKTR_APP_DATA_DIRECTORY": str(tmp_path),
        "CDKTR_DB_PATH": str(tmp_path / "p.db"),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "afl.fleet.principal"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1 and "--insecure" in ended.stderr


def test_key_files(tmp_path: Path) -> None:
    made = make_keys(tmp_path / "keys")
    secrets = [path for path in made if path.name.endswith("_secret")]
    assert len(secrets) == 2 and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets)
    with pytest.raises(KeyFileError, match="exists"):
        make_keys(tmp_path / "keys")
    (tmp_path / "file").touch()
    with pytest.raises(KeyFileError, match="cannot make the folder"):
        make_keys(tmp_path / "file" / "keys")
    keys = load_principal_keys(tmp_path / "keys")
    assert keys is not None and keys.secret.decode() not in repr(keys)
    assert load_principal_keys(tmp_path) is None and load_client_keys(tmp_path) is None


def test_damaged_key_files_are_told(tmp_path: Path) -> None:
    make_keys(tmp_path)
    (tmp_path / "client.key_secret").write_text("nothing")
    with pytest.raises(KeyFileError, match="secret-key"):
        load_client_keys(tmp_path)
    (tmp_path / "client.key_secret").write_text(f'public-key = "{"#" * 40}"\nsecret-key = "{"#" * 40}"\n')
    with pytest.raises(KeyFileError, match="damaged key"):
        load_client_keys(tmp_path)
    (tmp_path / "principal.key").unlink()
    with pytest.raises(KeyFileError, match="copy it"):
        load_client_keys(tmp_path)
