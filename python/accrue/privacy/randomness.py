"""Random bytes that an attacker cannot predict: everything that samples or noise are made of."""

from __future__ import annotations

import hashlib
import os
from typing import Protocol

from accrue.errors import UsageError


class Randomness(Protocol):
    """A source of random bytes. `state()` is what load_state() needs to go on; None if there is nothing to keep."""

    def bytes(self, count: int) -> bytes: ...
    def state(self) -> int | None: ...
    def load_state(self, state: int | None) -> None: ...


class SystemRandomness:
    """The operating system's cryptographic generator. A run that is resumed draws other numbers."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def state(self) -> int | None:
        return None

    def load_state(self, state: int | None) -> None:
        """Nothing is kept, also by a run that had a seed."""


class SeededRandomness:
    """A stream that is a function of a key: SHAKE-256 of the key and a counter. For tests: with the key, the noise can be subtracted.

    Args:
        key: the secret. At least 16 bytes from os.urandom for anything but a test.
    """

    def __init__(self, key: bytes):
        if not isinstance(key, bytes) or not key:
            raise UsageError("SeededRandomness", "bytes as key", f"a value of type {type(key).__name__}", "os.urandom(32)")
        self._key, self._requests = key, 0

    def bytes(self, count: int) -> bytes:
        prefix = len(self._key).to_bytes(8, "little") + self._key + self._requests.to_bytes(8, "little")
        self._requests += 1
        return hashlib.shake_256(prefix).digest(count)

    def state(self) -> int | None:
        return self._requests

    def load_state(self, state: int | None) -> None:
        """Goes on behind the requests that were made before, and never behind fewer than this stream has answered.

        Raises:
            UsageError: the state is that of another kind of randomness.
        """
        if state is None:
            raise UsageError("load the state of a seeded stream", "a number of requests", "that of the system's generator", "SystemRandomness()")
        self._requests = max(self._requests, state)
