"""Authentication of peers: CURVE keys on every socket, and the addresses that need them.

A folder of keys has `principal.key`, `principal.key_secret`, `client.key`, `client.key_secret` and the folder
`allowed` with the public keys of everyone who may connect. The principal needs its own secret and `allowed`; an agent
or a client on another machine needs `principal.key` and a `client.key_secret`. A key added to `allowed` counts at once,
one removed from it at the next connection.
"""

from __future__ import annotations

import logging
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from afl.fleet.errors import KeyFileError
from afl.fleet.zeromq import zmq
from afl.kernel.address import is_loopback
from afl.kernel.private_files import make_private_folder, open_private

_log = logging.getLogger(__name__)
_Z85 = rb"[0-9A-Za-z.:+=^!/*?&<>()\[\]{}@%$#-]"  # the characters that a key is written in
_KEY = re.compile(rb'^\s*(public|secret)-key\s*=\s*"(' + _Z85 + rb'{40})"\s*$', re.MULTILINE)
_PRINCIPAL, _CLIENT, _ALLOWED = "principal", "client", "allowed"


@dataclass(frozen=True, slots=True, repr=False)
class PrincipalKeys:
    """The principal's own key pair, and the folder of allowed public keys."""

    public: bytes
    secret: bytes
    allowed: Path

    def secure(self, socket: zmq.Socket[bytes] | zmq.asyncio.Socket) -> None:
        """To be called before the socket is bound."""
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public)
        socket.setsockopt(zmq.ZAP_DOMAIN, b"fleet")

    def lets_in(self, key: bytes) -> bool:
        """Whether a peer's key is allowed; the folder is read each time, so a new key counts at once."""
        for path in sorted(self.allowed.glob("*.key")):
            try:
                if zmq.utils.z85.decode(_public(path)) == key:
                    return True
            except KeyFileError as error:  # one damaged file must not lock out the others
                _log.warning("key file ignored: %s", error)
        return False


@dataclass(frozen=True, slots=True, repr=False)
class ClientKeys:
    """A peer's own key pair, and the public key of its principal."""

    public: bytes
    secret: bytes
    principal: bytes

    def secure(self, socket: zmq.Socket[bytes] | zmq.asyncio.Socket) -> None:
        """To be called before the socket is connected."""
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.principal)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret)
        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public)


def make_keys(folder: Path) -> list[Path]:
    """Create a principal's pair and an allowed client's pair; existing files are never overwritten."""
    made = _make_pairs(folder, _PRINCIPAL, _CLIENT)
    allowed = folder / _ALLOWED
    make_private_folder(allowed)
    return [*made, _write(allowed / f"{_CLIENT}.key", (folder / f"{_CLIENT}.key").read_bytes(), 0o644)]


def make_client_keys(folder: Path) -> list[Path]:
    """A pair for another machine, whose public key then goes to the principal's `allowed`."""
    return _make_pairs(folder, _CLIENT)


def _make_pairs(folder: Path, *names: str) -> list[Path]:
    for path in [folder / f"{name}.{kind}" for name in names for kind in ("key_secret", "key")]:
        if path.exists():
            raise KeyFileError(f"{path} exists; delete it first, or name another folder")
    try:
        make_private_folder(folder)
    except OSError as error:
        raise KeyFileError(
            f"cannot make the folder {folder}: {error.strerror}; name another folder"
        ) from error
    made: list[Path] = []
    for name in names:
        public, secret = zmq.curve_keypair()
        made.append(_write(folder / f"{name}.key_secret", _text(public, secret), 0o600))
        made.append(_write(folder / f"{name}.key", _text(public), 0o644))
    return made


def load_principal_keys(folder: Path) -> PrincipalKeys | None:
    """The principal's keys in a folder; None when it has none."""
    path = folder / f"{_PRINCIPAL}.key_secret"
    if not path.exists():
        return None
    public, secret = _pair(path)
    return PrincipalKeys(public, secret, folder / _ALLOWED)


def load_client_keys(folder: Path) -> ClientKeys | None:
    """A client's keys in a folder; None when it has none."""
    path, principal = folder / f"{_CLIENT}.key_secret", folder / f"{_PRINCIPAL}.key"
    if not path.exists():
        return None
    if not principal.exists():
        raise KeyFileError(f"{path} is there but {principal} is not; copy it from the principal's keys")
    public, secret = _pair(path)
    return ClientKeys(public, secret, _public(principal))


def check_bind(host: str, keys: PrincipalKeys | None, insecure: bool) -> None:
    """Raise KeyFileError when every host that reaches this address could run commands here."""
    if keys is None and not insecure and not is_loopback(host):
        raise KeyFileError(
            f"{host} can be reached from other machines, and there are no keys: anyone could run commands "
            "here. Create keys with `afl fleet keys`, listen on 127.0.0.1, or pass --insecure"
        )


class KeyAuthenticator:
    """Answers the authentication requests of libzmq, one per connection (ZAP, RFC 27)."""

    def __init__(self, context: zmq.asyncio.Context, keys: PrincipalKeys) -> None:
        """It must be there before the first socket is bound."""
        self._keys = keys
        self._socket = context.socket(zmq.REP)
        self._socket.bind("inproc://zeromq.zap.01")

    async def serve(self) -> None:
        """Run until canceled."""
        while True:
            question = await self._socket.recv_multipart()
            try:
                answer = self._answer(question)
            except Exception:  # this peer is refused; later ones may be accepted
                _log.exception("a peer's key could not be checked")
                answer = [*question[:2], b"500", b"internal error", b"", b""]
            await self._socket.send_multipart(answer)

    def close(self) -> None:
        self._socket.close(linger=0)

    def _answer(self, question: list[bytes]) -> list[bytes]:
        version, number, _domain, address, _identity, mechanism, *credentials = question
        if mechanism == b"CURVE" and len(credentials) == 1 and self._keys.lets_in(credentials[0]):
            return [version, number, b"200", b"OK", b"", b""]
        _log.warning("refused a peer at %s: its key is not allowed", address.decode("ascii", "replace"))
        return [version, number, b"400", b"unknown key", b"", b""]


def _write(path: Path, text: bytes, mode: int) -> Path:
    """The mode is set when the file is created, so that others can never read it."""
    try:
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_EXCL, mode), "wb") as file:
            file.write(text)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _text(public: bytes, secret: bytes | None = None) -> bytes:
    lines = [b"curve", b'    public-key = "%s"' % public]
    if secret is not None:
        lines.append(b'    secret-key = "%s"' % secret)
    return b"\n".join(lines) + b"\n"


def _keys(path: Path) -> dict[bytes, bytes]:
    try:
        return dict(_KEY.findall(path.read_bytes()))
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from error


def _public(path: Path) -> bytes:
    found = _keys(path).get(b"public")
    if found is None:
        raise KeyFileError(f'{path} has no line `public-key = "..."`; make keys with `afl fleet keys`')
    return _checked(found, path)


def _pair(path: Path) -> tuple[bytes, bytes]:
    secret = _keys(path).get(b"secret")
    if secret is None:
        raise KeyFileError(f'{path} has no line `secret-key = "..."`; make keys with `afl fleet keys`')
    return _public(path), _checked(secret, path)


def _checked(key: bytes, path: Path) -> bytes:
    """Not every text of valid characters is a key."""
    try:
        zmq.utils.z85.decode(key)
    except (ValueError, struct.error) as error:
        raise KeyFileError(f"{path} holds a damaged key; make keys with `afl fleet keys`") from error
    return key
