"""What the server does in each phase of a sum. It learns the sum, who took part, and who left when."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accrue.errors import RunError, UsageError
from accrue.federated.secure import shamir
from accrue.federated.secure.keys import KEY_BYTES, PublicKeys, expect_usable, key_pair
from accrue.federated.secure.masks import Words, with_masks
from accrue.federated.secure.participant import Revealed, adds, digest_of, pair_mask, points_of, self_mask
from accrue.federated.secure.session import Session


class TooFewClients(RunError):
    """Fewer clients than the threshold are left, so a sum stays masked."""


class Aggregator:
    """The server's side of one session. In each phase it takes what clients sent, one by one, and closes the phase with those that answered.

        aggregator.take_keys(name, keys)       members = aggregator.close_keys()
        aggregator.take_sealed(name, sealed)   routed = aggregator.close_sealed()
        aggregator.take_masked(name, words)    survivors = aggregator.close_masked()
        aggregator.take_revealed(name, shares) total = aggregator.total()

    take_... raises UsageError if a message does not fit; the client then counts as lost. close_... and total() raise RunError if fewer clients
    than the threshold are left.

    Args:
        session: what clients were told.
        words: the length of each client's vector; 0 if it is not known yet and expect_words() states it.
    """

    def __init__(self, session: Session, words: int = 0):
        self._session, self._length = session, words
        self._members: dict[str, PublicKeys] = {}
        self._digest = ""
        self._sealed: dict[str, dict[str, bytes]] = {}
        self._masked: Words = np.zeros(words, np.uint64)
        self._survivors: list[str] = []
        self._revealed: dict[str, Revealed] = {}

    @property
    def survivors(self) -> list[str]:
        """Those whose words are in the sum."""
        return sorted(self._survivors)

    def expect_keys(self, name: str, keys: PublicKeys) -> None:
        """Raises UsageError if a client would refuse these keys of another one, so that the one which sent them is refused, and by name."""
        taken = [key for each in self._members.values() for key in (each.sealing, each.masking)]
        own = (keys.sealing, keys.masking)
        if any(len(key) != KEY_BYTES or key in taken for key in own) or keys.sealing == keys.masking or name in self._members:
            raise self._refused(f"two new keys of {KEY_BYTES} bytes of {name}", "keys that do not fit")
        for key in own:
            expect_usable(key)

    def take_keys(self, name: str, keys: PublicKeys) -> None:
        self.expect_keys(name, keys)
        self._members[name] = keys

    def close_keys(self) -> dict[str, PublicKeys]:
        """Returns all members' keys, for all of them."""
        self._expect_enough(len(self._members))
        self._digest = digest_of(self._members)
        return dict(self._members)

    def expect_sealed(self, name: str, sealed: Mapping[str, bytes]) -> None:
        if name in self._sealed or name not in self._members or set(sealed) != set(self._members) - {name}:
            raise self._refused(f"shares of {name} for each other member, once", f"shares for {', '.join(sorted(sealed)) or 'none'}")

    def take_sealed(self, name: str, sealed: Mapping[str, bytes]) -> None:
        self.expect_sealed(name, sealed)
        self._sealed[name] = dict(sealed)

    def close_sealed(self) -> dict[str, dict[str, bytes]]:
        """Returns for each client that goes on the shares that the others sealed for it."""
        self._expect_enough(len(self._sealed))
        return {receiver: {sender: sealed[receiver] for sender, sealed in self._sealed.items() if sender != receiver} for receiver in self._sealed}

    def expect_words(self, words: int) -> None:
        """States the length of each client's vector, before the first one is taken. No key depends on it."""
        self._length, self._masked = words, np.zeros(words, np.uint64)

    def take_masked(self, name: str, words: Words) -> None:
        if name in self._survivors or name not in self._sealed:
            raise self._refused("masked words of a client that goes on, once", f"others of {name}")
        if words.shape != (self._length,) or words.dtype != np.uint64:
            raise self._refused(f"{self._length} words of {name}", f"{words.dtype} {list(words.shape)}")
        self._survivors.append(name)
        self._masked = self._masked + words

    def close_masked(self) -> list[str]:
        """Returns the names of those whose words are in the sum, for all of them."""
        self._expect_enough(len(self._survivors))
        return self.survivors

    def take_revealed(self, name: str, revealed: Revealed) -> None:
        lost = set(self._sealed) - set(self._survivors)
        if name in self._revealed or name not in self._survivors or set(revealed.seeds) != set(self._survivors) or set(revealed.keys) != lost:
            raise self._refused(f"shares of {name} of the seeds of those in the sum and of the keys of those that left", "others")
        if not all(0 <= share < shamir.PRIME for share in (*revealed.seeds.values(), *revealed.keys.values())):
            raise self._refused(f"shares of {name} in the field", "numbers beyond it")
        self._revealed[name] = revealed

    def total(self) -> Words:
        """Returns the sum of the survivors' words, modulo 2^64."""
        self._expect_enough(len(self._revealed))
        add, subtract = [], [self._self_mask(name) for name in self._survivors]
        for lost in set(self._sealed) - set(self._survivors):
            for name, key in self._pair_masks(lost).items():
                (subtract if adds(name, lost) else add).append(key)
        return with_masks(self._masked, add=add, subtract=subtract)

    def _self_mask(self, name: str) -> bytes:
        seed = self._combined({who: revealed.seeds[name] for who, revealed in self._revealed.items()}, name)
        return self_mask(self._session, self._digest, name, seed)

    def _pair_masks(self, lost: str) -> dict[str, bytes]:
        """Returns the keys of the masks that the survivors share with one that left."""
        keys = key_pair(self._combined({who: revealed.keys[lost] for who, revealed in self._revealed.items()}, lost))
        if keys.public != self._members[lost].masking:
            raise self._wrong_shares(lost)
        return {name: pair_mask(self._session, self._digest, keys, self._members[name].masking) for name in self._survivors}

    def _combined(self, shares: Mapping[str, int], owner: str) -> bytes:
        points = points_of(self._members)
        used = sorted(shares)[:self._session.threshold]
        secret = shamir.combine({points[who]: shares[who] for who in used})
        if secret >= 2**(8 * KEY_BYTES):
            raise self._wrong_shares(owner)
        return secret.to_bytes(KEY_BYTES, "big")

    def _wrong_shares(self, owner: str) -> RunError:
        return RunError(str(self._session), f"shares of one secret of {owner}", "shares that do not fit each other",
                        "leaving out clients that may not follow the protocol")

    def _expect_enough(self, clients: int) -> None:
        if clients < self._session.threshold:
            raise TooFewClients(str(self._session), f"{self._session.threshold} clients, the threshold", str(clients),
                                "a longer timeout, or more clients in a run")

    def _refused(self, expected: str, received: str) -> UsageError:
        return UsageError(str(self._session), expected, received, "the same version of accrue on clients and server")
