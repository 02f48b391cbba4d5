"""Bytes that only two ends can read, by way of somebody who carries them and may look: like Ray.

Each end makes a pair of keys, and the public halves go in the open: who only listens learns
nothing. It is not said here who the other end is; whoever can answer in its place is believed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lppa.protocol.errors import RunFailed

ASKS, ANSWERS = b"lppa: the end that asks", b"lppa: the end that answers"
KEY = 32  # bytes


class Half:
    """One end before it has met the other; `public` is for anybody to see."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def asking(self, other: bytes) -> Sealing:
        """The end that speaks first, and the other's public half."""
        key = self._shared(other, self.public + other)
        return Sealing(_way(key, ASKS), _way(key, ANSWERS))

    def answering(self, other: bytes) -> Sealing:
        """The end that is asked, and the other's public half."""
        key = self._shared(other, other + self.public)
        return Sealing(_way(key, ANSWERS), _way(key, ASKS))

    def _shared(self, other: bytes, both: bytes) -> bytes:
        try:
            secret = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        except ValueError:
            raise RunFailed("what came in the place of a public key is none") from None
        return HKDF(SHA256(), KEY, salt=both, info=b"lppa").derive(secret)


def _way(key: bytes, info: bytes) -> AESGCM:
    """What is said in one direction is sealed with a key of its own."""
    return AESGCM(HKDF(SHA256(), KEY, salt=None, info=info).derive(key))


@dataclass
class Sealing:
    """Seals what this end says and opens what the other says, each message once and in order."""

    out: AESGCM = field(repr=False)
    into: AESGCM = field(repr=False)
    said: int = 0
    heard: int = 0

    def seal(self, data: bytes) -> bytes:
        """The next message of this end."""
        sealed = self.out.encrypt(_number(self.said), data, None)
        self.said += 1
        return sealed

    def open(self, sealed: bytes) -> bytes:
        """The next message of the other end; raises RunFailed for anything else."""
        try:
            data = self.into.decrypt(_number(self.heard), sealed, None)
        except InvalidTag:
            raise RunFailed("a sealed message was changed, lost or repeated on its way") from None
        self.heard += 1
        return data


def _number(count: int) -> bytes:
    return count.to_bytes(12, "big")
