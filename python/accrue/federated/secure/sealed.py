"""Shares that travel by the server and that only their receiver can read: ChaCha20-Poly1305 (RFC 8439)."""

from __future__ import annotations

from accrue.errors import UsageError
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

# Each key encrypts one text, so it needs no other nonce.
_NONCE = bytes(12)


def seal(key: bytes, text: bytes, context: bytes) -> bytes:
    """Returns `text` encrypted. `key` must not be used for another text."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, text, context)


def unseal(key: bytes, sealed: bytes, context: bytes, sender: str) -> bytes:
    """Raises UsageError if the text is not what `sender` sealed in this context."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, context)
    except InvalidTag:
        raise UsageError("open encrypted shares", f"shares that {sender} encrypted in this session", "others: keys that do not fit, or a replay",
                         "a new session") from None
