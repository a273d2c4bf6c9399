"""What a client does in each phase of a sum."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from accrue.errors import UsageError
from accrue.federated.secure import shamir
from accrue.federated.secure.keys import KEY_BYTES, Entropy, KeyPair, PublicKeys, agree, derive, key_pair
from accrue.federated.secure.masks import Words, with_masks
from accrue.federated.secure.sealed import seal, unseal
from accrue.federated.secure.session import Session, check_members

# The phases, each of which happens once.
KEYS, SHARED, MASKED, REVEALED = "keys", "shares", "masked", "revealed"


@dataclasses.dataclass(frozen=True)
class Shares:
    """A client's shares of one other client's two secrets."""

    seed: int
    key: int

    def to_bytes(self) -> bytes:
        return self.seed.to_bytes(shamir.SHARE_BYTES, "big") + self.key.to_bytes(shamir.SHARE_BYTES, "big")

    @staticmethod
    def from_bytes(text: bytes) -> Shares:
        shares = Shares(int.from_bytes(text[:shamir.SHARE_BYTES], "big"), int.from_bytes(text[shamir.SHARE_BYTES:], "big"))
        if len(text) != 2 * shamir.SHARE_BYTES or max(shares.seed, shares.key) >= shamir.PRIME:
            raise UsageError("read shares", f"two of {shamir.SHARE_BYTES} bytes in the field", f"{len(text)} bytes that are none", "a new session")
        return shares


@dataclasses.dataclass(frozen=True)
class Revealed:
    """The shares that a client reveals to the server at the end, by owner: of the seeds of those who sent words, and of the keys of those who did not."""

    seeds: Mapping[str, int]
    keys: Mapping[str, int]


def points_of(members: Collection[str]) -> dict[str, int]:
    """Returns where each member's shares are taken: 1, 2, ... in order of the names."""
    return {name: point for point, name in enumerate(sorted(members), start=1)}


def digest_of(members: Mapping[str, PublicKeys]) -> str:
    """Returns a digest of who takes part with which keys. It enters all derivations, so clients that were told different lists share no mask."""
    named = [[name, members[name].sealing.hex(), members[name].masking.hex()] for name in sorted(members)]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def pair_mask(session: Session, digest: str, mine: KeyPair, theirs: bytes) -> bytes:
    """Returns the key of the masks of two members, which one adds and the other subtracts."""
    return agree(mine, theirs, session.context("pair mask", digest))


def self_mask(session: Session, digest: str, name: str, seed: bytes) -> bytes:
    """Returns the key of the mask that hides a member's words if its pairwise masks have to be removed."""
    return derive(seed, session.context("self mask", digest, name))


def adds(name: str, other: str) -> bool:
    """Says whether `name` adds the mask that it shares with `other`."""
    return name < other


class Participant:
    """A client in one session. Its state between the phases is plain data, to be kept by the client alone.

        participant = Participant.begin(session, "ann", os.urandom)
        sealed = participant.share(members)            # the public keys of all, from the server
        masked = participant.mask(words, shares)       # the shares that others sealed for it
        revealed = participant.reveal(survivors)       # those whose masked words arrived

    Each phase happens once. A second request is refused even with the same content, so one set of masks never hides two messages, and of each
    other client either the share of its seed or the share of its key is told.
    """

    def __init__(self, session: Session, name: str, sealing: KeyPair, masking: KeyPair, seed: bytes, phase: str = KEYS, digest: str = "",
                 members: Mapping[str, PublicKeys] | None = None, shares: Mapping[str, Shares] | None = None):
        self._session, self._name = session, name
        self._sealing, self._masking, self._seed = sealing, masking, seed
        self._phase, self._digest = phase, digest
        self._members = dict(members or {})
        self._shares = dict(shares or {})

    @staticmethod
    def begin(session: Session, name: str, entropy: Entropy) -> Participant:
        """Draws new keys and a new seed."""
        return Participant(session, name, key_pair(entropy(KEY_BYTES)), key_pair(entropy(KEY_BYTES)), entropy(KEY_BYTES))

    @property
    def session(self) -> Session:
        return self._session

    @property
    def public_keys(self) -> PublicKeys:
        return PublicKeys(self._sealing.public, self._masking.public)

    def share(self, members: Mapping[str, PublicKeys], entropy: Entropy) -> dict[str, bytes]:
        """Takes the public keys of all members. Returns the encrypted shares for each other one.

        Raises:
            UsageError: there are too few members for the threshold, or keys do not fit: this client's are others, or two members have the same.
        """
        self._expect(KEYS)
        check_members(str(self._session), len(members), self._session.threshold)
        if members.get(self._name) != self.public_keys:
            raise self._refused(f"the keys that {self._name} sent", "others")
        keys = [key for each in members.values() for key in (each.sealing, each.masking)]
        if len(set(keys)) < len(keys) or any(len(key) != KEY_BYTES for key in keys):
            raise self._refused(f"different keys of {KEY_BYTES} bytes for each client", "keys that do not fit")
        self._members, self._digest = dict(members), digest_of(members)
        points = points_of(members)
        seeds, masking = (self._split(secret, points, entropy) for secret in (self._seed, self._masking.private))
        mine = {name: Shares(seeds[point], masking[point]) for name, point in points.items()}
        sealed = {name: seal(self._sealing_key(self._name, name), mine[name].to_bytes(), self._session.context("shares", self._digest))
                  for name in members if name != self._name}
        self._shares = {self._name: mine[self._name]}
        self._phase = SHARED
        return sealed

    def mask(self, words: Words, sealed: Mapping[str, bytes]) -> Words:
        """Takes the encrypted shares of all that go on, and returns the masked words.

        Raises:
            UsageError: there are too few, a sender is no member, or shares cannot be opened.
        """
        self._expect(SHARED)
        self._expect_members({*sealed, self._name})
        opened = {name: self._opened(name, text) for name, text in sealed.items() if name != self._name}
        pairs = {name: pair_mask(self._session, self._digest, self._masking, self._members[name].masking) for name in opened}
        own = self_mask(self._session, self._digest, self._name, self._seed)
        self._shares.update(opened)
        self._phase = MASKED
        return with_masks(words, add=[own, *(key for name, key in pairs.items() if adds(self._name, name))],
                          subtract=[key for name, key in pairs.items() if not adds(self._name, name)])

    def reveal(self, survivors: Collection[str]) -> Revealed:
        """Takes the names of those whose masked words arrived, and returns the shares that remove their masks from the sum.

        Raises:
            UsageError: they are too few, or this client is not among them.
        """
        self._expect(MASKED)
        self._expect_members(survivors)
        if self._name not in survivors or not set(survivors) <= set(self._shares):
            raise self._refused("survivors among those that go on, and this client among them", ", ".join(sorted(survivors)))
        self._phase = REVEALED
        return Revealed({name: shares.seed for name, shares in self._shares.items() if name in survivors},
                        {name: shares.key for name, shares in self._shares.items() if name not in survivors})

    def state(self) -> dict[str, Any]:
        """Returns all that the next phase needs, as JSON has it. It has secrets."""
        return {"session": dataclasses.asdict(self._session), "name": self._name, "phase": self._phase, "digest": self._digest,
                "sealing": self._sealing.private.hex(), "masking": self._masking.private.hex(), "seed": self._seed.hex(),
                "members": {name: [keys.sealing.hex(), keys.masking.hex()] for name, keys in self._members.items()},
                "shares": {name: shares.to_bytes().hex() for name, shares in self._shares.items()}}

    @staticmethod
    def of_state(state: Mapping[str, Any]) -> Participant:
        return Participant(Session(**state["session"]), state["name"], key_pair(bytes.fromhex(state["sealing"])),
                           key_pair(bytes.fromhex(state["masking"])), bytes.fromhex(state["seed"]), state["phase"], state["digest"],
                           {name: PublicKeys(*map(bytes.fromhex, keys)) for name, keys in state["members"].items()},
                           {name: Shares.from_bytes(bytes.fromhex(text)) for name, text in state["shares"].items()})

    def _split(self, secret: bytes, points: Mapping[str, int], entropy: Entropy) -> dict[int, int]:
        # 16 bytes more than the prime has make a remainder uniform to 2^-128.
        return shamir.split(int.from_bytes(secret, "big"), self._session.threshold, list(points.values()),
                            lambda: int.from_bytes(entropy(KEY_BYTES + 16), "big") % shamir.PRIME)

    def _sealing_key(self, sender: str, receiver: str) -> bytes:
        other = self._members[receiver if sender == self._name else sender]
        return agree(self._sealing, other.sealing, self._session.context("sealing", self._digest, sender, receiver))

    def _opened(self, sender: str, sealed: bytes) -> Shares:
        return Shares.from_bytes(unseal(self._sealing_key(sender, self._name), sealed, self._session.context("shares", self._digest), sender))

    def _expect_members(self, names: Collection[str]) -> None:
        unknown = sorted(set(names) - set(self._members))
        if unknown:
            raise self._refused(f"members of the session: {', '.join(sorted(self._members))}", ", ".join(unknown))
        if len(set(names)) < self._session.threshold:
            raise self._refused(f"at least {self._session.threshold} clients, the threshold", f"{len(set(names))}: {', '.join(sorted(names))}")

    def _expect(self, phase: str) -> None:
        if self._phase != phase:
            raise self._refused("each phase once and in order", f"a request that follows {phase!r} after {self._phase!r}: a replay, or out of order")

    def _refused(self, expected: str, received: str) -> UsageError:
        return UsageError(str(self._session), expected, received, "a new session")
