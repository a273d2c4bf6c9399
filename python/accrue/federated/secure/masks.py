"""Streams of masks: words of 64 bits from AES-256 in counter mode, added and subtracted modulo 2^64."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

Words = np.ndarray  # of uint64, one dimension

# Streams are expanded in parts that stay in the cache.
_PART_WORDS = 2**15
_ZEROS = bytes(_PART_WORDS * 8)
# What update_into() wants beyond the text: a block less one byte.
_MARGIN = 15


def with_masks(words: Words, *, add: Collection[bytes] = (), subtract: Collection[bytes] = ()) -> Words:
    """Returns the words with the streams of some keys added, and those of others subtracted, modulo 2^64."""
    # A key has one stream, so its counter begins at zero.
    streams = [(operation, Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor())
               for operation, keys in ((np.add, add), (np.subtract, subtract)) for key in keys]
    result = words.copy()
    buffer = bytearray(len(_ZEROS) + _MARGIN)
    for begin in range(0, len(result), _PART_WORDS):
        part = result[begin:begin + _PART_WORDS]
        for operation, stream in streams:
            stream.update_into(memoryview(_ZEROS)[:8 * len(part)], buffer)
            operation(part, np.frombuffer(buffer, "<u8", len(part)), out=part)
    return result
