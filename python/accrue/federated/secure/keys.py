"""Keys of X25519 (RFC 7748), and what two of them agree on by HKDF-SHA256 (RFC 5869)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from accrue.errors import UsageError
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32

# Returns so many random bytes: os.urandom, except in tests.
Entropy = Callable[[int], bytes]


@dataclasses.dataclass(frozen=True)
class KeyPair:
    private: bytes = dataclasses.field(repr=False)
    public: bytes


@dataclasses.dataclass(frozen=True)
class PublicKeys:
    """The public keys of a client: others encrypt shares to it with one, and agree on masks with it by the other."""

    sealing: bytes
    masking: bytes


def key_pair(private: bytes) -> KeyPair:
    return KeyPair(private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def derive(secret: bytes, context: bytes) -> bytes:
    """Returns a key for one use of `secret`."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=context).derive(secret)


def expect_usable(public: bytes) -> None:
    """Raises UsageError as agree() does for this key of another one."""
    agree(key_pair(bytes(range(KEY_BYTES))), public, b"")


def agree(mine: KeyPair, theirs: bytes, context: bytes) -> bytes:
    """Returns the key that both owners derive for this context, and nobody else.

    Raises:
        UsageError: `theirs` is no public key, or one of small order, by which everyone could derive the key.
    """
    try:
        secret = X25519PrivateKey.from_private_bytes(mine.private).exchange(X25519PublicKey.from_public_bytes(theirs))
    except ValueError:
        raise UsageError("agree on a key", f"an X25519 public key of {KEY_BYTES} bytes", f"{len(theirs)} bytes that are none", "a new session") from None
    # Both public keys are part of the derivation, as RFC 7748 (6.1) recommends.
    return derive(secret, context + min(mine.public, theirs) + max(mine.public, theirs))
