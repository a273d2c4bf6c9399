"""Keys and shares as the facts of a message. Whatever does not have the expected form is Refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accrue.federated.messages import Refused
from accrue.federated.secure import shamir
from accrue.federated.secure.keys import PublicKeys
from accrue.federated.secure.participant import Revealed

# The field with a phase's part for each sum, by its label.
EACH = "each"
# The field with keys or shares of the next round, which travel with messages of this one.
NEXT = "next"
# The phases of an attempt. The last one happens for each of its sums by itself.
KEYS, SHARES, MASKED, REVEAL = "keys", "shares", "masked", "reveal"


def table_of(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = facts.get(name)
    if not isinstance(table, dict):
        raise Refused(f"a message without {name}")
    return table


def bytes_of(value: Any, what: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise Refused(f"{what} that are not hexadecimal") from None


def keys_as_facts(keys: PublicKeys) -> list[str]:
    return [keys.sealing.hex(), keys.masking.hex()]


def keys_of(value: Any) -> PublicKeys:
    if not isinstance(value, list) or len(value) != 2:
        raise Refused("keys that are no pair")
    return PublicKeys(*(bytes_of(each, "keys") for each in value))


def sealed_as_facts(sealed: Mapping[str, bytes]) -> dict[str, str]:
    return {name: text.hex() for name, text in sealed.items()}


def sealed_of(facts: Mapping[str, Any], label: str) -> dict[str, bytes]:
    return {name: bytes_of(text, "shares") for name, text in table_of(facts, label).items()}


def revealed_as_facts(revealed: Revealed) -> dict[str, dict[str, str]]:
    return {kind: {name: share.to_bytes(shamir.SHARE_BYTES, "big").hex() for name, share in shares.items()}
            for kind, shares in (("seeds", revealed.seeds), ("keys", revealed.keys))}


def revealed_of(facts: Mapping[str, Any]) -> Revealed:
    return Revealed(*({name: int.from_bytes(bytes_of(share, "shares"), "big") for name, share in table_of(facts, kind).items()}
                      for kind in ("seeds", "keys")))
