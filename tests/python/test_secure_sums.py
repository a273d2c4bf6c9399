"""Secure sums as pure functions and state machines: keys, masks, shares, and the phases of clients and server without any transport."""

import itertools
import json
import random
from fractions import Fraction

import numpy as np
import pytest
import torch

import accrue

pytest.importorskip("flwr", reason="Flower is not installed: scripts/setup.sh test")
from accrue.federated.secure import shamir  # noqa: E402
from accrue.federated.secure.aggregator import Aggregator  # noqa: E402
from accrue.federated.secure.exact import DIGITS, digits_of, value_of  # noqa: E402
from accrue.federated.secure.keys import PublicKeys, agree, derive, key_pair  # noqa: E402
from accrue.federated.secure.masks import with_masks  # noqa: E402
from accrue.federated.secure.needs import NeededUnits  # noqa: E402
from accrue.federated.secure.participant import Participant, Revealed, pair_mask, self_mask  # noqa: E402
from accrue.federated.secure.sealed import seal, unseal  # noqa: E402
from accrue.federated.secure.session import Session, check_members, check_run, least_threshold  # noqa: E402
from accrue.federated.secure.words import SumLayout  # noqa: E402

NAMES = ["ann", "bob", "cleo", "dan", "eve"]
WORDS = 2**14
# Of chi-square with 255 degrees of freedom: one uniform sample in a million is above it.
MOST_CHI_SQUARE = 377.0


def entropy_of(seed):
    return random.Random(seed).randbytes


def session_of(round=3, attempt=0, label="sums", threshold=3):
    return Session("nonce 1", round, attempt, label, threshold)


def vectors_of(names=NAMES, words=WORDS):
    """Small numbers of both signs, as gradients have them in units: unlike masks, their bytes are anything but uniform."""
    return {name: np.random.default_rng(seed).normal(0, 2.0**40, words).astype(np.int64).view(np.uint64) for seed, name in enumerate(names)}


class Exchange:
    """All phases of a session in one process. `lost` has the names of those that do not answer in a phase; each phase passes by the state as data."""

    def __init__(self, session, vectors, lost=None, seed=0):
        self.lost = {"keys": (), "shares": (), "masked": (), "revealed": (), **(lost or {})}
        self.server = Aggregator(session, len(next(iter(vectors.values()))))
        self.clients = {name: Participant.begin(session, name, entropy_of(f"{seed} {name}")) for name in vectors}
        self.vectors, self.masked, self.revealed = vectors, {}, {}

    def answering(self, phase):
        self.clients = {name: Participant.of_state(json.loads(json.dumps(client.state()))) for name, client in self.clients.items()
                        if name not in self.lost[phase]}
        return self.clients.items()

    def run(self):
        for name, client in self.answering("keys"):
            self.server.take_keys(name, client.public_keys)
        members = self.server.close_keys()
        for name, client in self.answering("shares"):
            self.server.take_sealed(name, client.share(members, entropy_of(f"shares {name}")))
        self.routed = self.server.close_sealed()
        for name, client in self.answering("masked"):
            self.masked[name] = client.mask(self.vectors[name], self.routed[name])
            self.server.take_masked(name, self.masked[name])
        survivors = self.server.close_masked()
        for name, client in self.answering("revealed"):
            self.revealed[name] = client.reveal(survivors)
            self.server.take_revealed(name, self.revealed[name])
        return self.server.total()


def chi_square(words):
    """How far the bytes of words are from uniform."""
    counts = np.bincount(words.view(np.uint8), minlength=256)
    expected = words.nbytes / 256
    return float(((counts - expected)**2 / expected).sum())


def sum_of(vectors, names):
    return np.add.reduce([vectors[name] for name in names])


@pytest.mark.parametrize("lost, survivors", [
    ({}, NAMES),
    ({"keys": ["eve"]}, NAMES[:4]),
    ({"shares": ["ann"]}, NAMES[1:]),
    ({"masked": ["cleo"]}, ["ann", "bob", "dan", "eve"]),
    ({"masked": ["ann", "eve"]}, ["bob", "cleo", "dan"]),
    ({"revealed": ["ann", "bob"]}, NAMES),
    ({"keys": ["ann"], "masked": ["bob"]}, ["cleo", "dan", "eve"]),
    ({"shares": ["eve"], "revealed": ["dan"]}, NAMES[:4]),
])
def test_masks_cancel_for_those_whose_words_arrived(lost, survivors):
    vectors = vectors_of()
    exchange = Exchange(session_of(), vectors, lost)
    total = exchange.run()
    assert np.array_equal(total, sum_of(vectors, survivors)) and exchange.server.survivors == survivors
    assert not np.array_equal(total, sum_of(vectors, survivors[1:])), "another sum would be noticed"


@pytest.mark.parametrize("phase", ["keys", "shares", "masked", "revealed"])
def test_below_the_threshold_there_is_no_sum(phase):
    with pytest.raises(accrue.RunError, match=r"secure sum of round 3: expected 3 clients, the threshold, received 2"):
        Exchange(session_of(), vectors_of(), {phase: ["ann", "cleo", "eve"]}).run()


def test_sums_wrap_around_as_int64_does():
    vectors = {name: np.full(5, value, np.int64).view(np.uint64) for name, value in zip(NAMES, (-3, 2, 2**62, -2**62, -1))}
    assert Exchange(session_of(), vectors).run().view(np.int64).tolist() == [-2] * 5


def test_a_message_is_indistinguishable_from_uniform():
    vectors = vectors_of()
    exchange = Exchange(session_of(), vectors, {"masked": ["eve"]})
    exchange.run()
    for name, masked in exchange.masked.items():
        assert chi_square(masked) < MOST_CHI_SQUARE, name
        assert chi_square(vectors[name]) > 1e5, "without masks the test fails"
    assert chi_square(sum_of(exchange.masked, ["ann", "bob"])) < MOST_CHI_SQUARE, "nor do parts of the clients add up to anything"
    assert chi_square(sum_of(vectors, ["ann", "bob"])) > 1e5


def test_either_mask_alone_hides_a_message():
    """The server learns the seeds of those in the sum, and the keys of those that left: their words stay hidden by the other kind of mask."""
    session, vectors = session_of(), vectors_of()
    exchange = Exchange(session, vectors)
    exchange.run()
    for name, client in exchange.clients.items():
        state = client.state()
        own = self_mask(session, state["digest"], name, bytes.fromhex(state["seed"]))
        pairs = {other: pair_mask(session, state["digest"], key_pair(bytes.fromhex(state["masking"])), bytes.fromhex(keys[1]))
                 for other, keys in state["members"].items() if other != name}
        add, subtract = [[key for other, key in pairs.items() if (name < other) is is_added] for is_added in (True, False)]
        without_own = with_masks(exchange.masked[name], subtract=[own])
        without_pairs = with_masks(exchange.masked[name], add=subtract, subtract=add)
        assert chi_square(without_own) < MOST_CHI_SQUARE and chi_square(without_pairs) < MOST_CHI_SQUARE
        assert np.array_equal(with_masks(without_pairs, subtract=[own]), vectors[name]), "without both it is open"


def test_two_clients_and_the_server_do_not_uncover_a_third_one():
    """They know the seeds that were revealed and their own pairwise masks. What is left of ann's words is hidden by the masks of dan and eve."""
    session, vectors = session_of(), vectors_of()
    exchange = Exchange(session, vectors)
    exchange.run()
    state = exchange.clients["ann"].state()
    known = [self_mask(session, state["digest"], "ann", bytes.fromhex(state["seed"]))]
    for name in ("bob", "cleo"):
        keys = key_pair(bytes.fromhex(exchange.clients[name].state()["masking"]))
        known.append(pair_mask(session, state["digest"], keys, bytes.fromhex(state["members"]["ann"][1])))
    assert chi_square(with_masks(exchange.masked["ann"], subtract=known)) < MOST_CHI_SQUARE
    honest = sum_of(exchange.masked, ["ann", "dan", "eve"])
    masks = [self_mask(session, state["digest"], name, bytes.fromhex(exchange.clients[name].state()["seed"])) for name in ("ann", "dan", "eve")]
    for name in ("bob", "cleo"):
        keys = key_pair(bytes.fromhex(exchange.clients[name].state()["masking"]))
        pairs = {other: pair_mask(session, state["digest"], keys, bytes.fromhex(state["members"][other][1])) for other in ("ann", "dan", "eve")}
        honest = with_masks(honest, add=[key for other, key in pairs.items() if other > name], subtract=[key for other, key in pairs.items() if other < name])
    assert np.array_equal(with_masks(honest, subtract=masks), sum_of(vectors, ["ann", "dan", "eve"])), "the sum of the honest ones is all they learn"


@pytest.mark.parametrize("other", [session_of(round=4), session_of(attempt=1), session_of(label="units"), Session("nonce 2", 3, 0, "sums", 3)])
def test_each_session_has_other_masks(other):
    """Even with keys that are drawn twice, as of a client that was restored from a copy of its machine."""
    first, second = (Exchange(session, vectors_of(), seed=5) for session in (session_of(), other))
    first.run()
    second.run()
    for name in NAMES:
        difference = first.masked[name] - second.masked[name]
        assert np.count_nonzero(difference) == len(difference) and chi_square(difference) < MOST_CHI_SQUARE
    again = Exchange(session_of(), vectors_of(), seed=5)
    again.run()
    assert all(np.array_equal(again.masked[name], first.masked[name]) for name in NAMES), "the comparison notices equal masks"


def test_phases_happen_once():
    exchange = Exchange(session_of(), vectors_of())
    exchange.run()
    ann = exchange.clients["ann"]
    members = exchange.server._members
    for repeat in (lambda: ann.share(members, entropy_of(1)), lambda: ann.mask(vectors_of()["bob"], exchange.routed["ann"]),
                   lambda: ann.mask(exchange.vectors["ann"], exchange.routed["ann"]), lambda: ann.reveal(NAMES), lambda: ann.reveal(NAMES[:3])):
        with pytest.raises(accrue.UsageError, match=r"secure sum of round 3: expected each phase once and in order, .*: a replay, or out of order"):
            repeat()


def test_nobody_tells_both_shares_of_a_client():
    exchange = Exchange(session_of(), vectors_of(), {"masked": ["bob"]})
    exchange.run()
    for revealed in exchange.revealed.values():
        assert set(revealed.seeds) == {"ann", "cleo", "dan", "eve"} and set(revealed.keys) == {"bob"}


def shared(session=None, names=NAMES):
    """Clients that have the shares of the others, and these shares by receiver."""
    session = session or session_of()
    clients = {name: Participant.begin(session, name, entropy_of(name)) for name in names}
    members = {name: client.public_keys for name, client in clients.items()}
    sealed = {name: client.share(members, entropy_of(name)) for name, client in clients.items()}
    return clients, {name: {other: sealed[other][name] for other in names if other != name} for name in names}


def test_replayed_and_altered_shares_are_refused():
    _, earlier = shared(session_of(round=2))
    clients, routed = shared()
    words = np.zeros(4, np.uint64)
    with pytest.raises(accrue.UsageError, match="shares that bob encrypted in this session, received others: keys that do not fit, or a replay"):
        clients["ann"].mask(words, {**routed["ann"], "bob": earlier["ann"]["bob"]})
    with pytest.raises(accrue.UsageError, match="shares that bob encrypted"):
        clients["ann"].mask(words, {**routed["ann"], "bob": routed["cleo"]["bob"]})
    with pytest.raises(accrue.UsageError, match="shares that dan encrypted"):
        clients["ann"].mask(words, {**routed["ann"], "dan": routed["ann"]["dan"][:-1] + b"?"})
    assert clients["ann"].mask(words, routed["ann"]).shape == (4,), "a refused request changes nothing"


def _other(keys):
    return PublicKeys(keys.sealing, key_pair(bytes(range(32))).public)


@pytest.mark.parametrize("change, message", [
    (lambda members: {**members, "ann": _other(members["ann"])}, "expected the keys that ann sent, received others"),
    (lambda members: {name: keys for name, keys in members.items() if name != "ann"}, "expected the keys that ann sent"),
    (lambda members: {**members, "bob": members["cleo"]}, "keys that do not fit"),
    (lambda members: {**members, "bob": PublicKeys(b"short", members["bob"].masking)}, "keys that do not fit"),
    (lambda members: {**members, "bob": PublicKeys(bytes(32), members["bob"].masking)}, "an X25519 public key of 32 bytes"),
    (lambda members: {name: members[name] for name in NAMES[:2]}, "expected at least 3 clients, the threshold, received 2"),
    (lambda members: {**members, **{f"x{i}": PublicKeys(bytes([i] * 32), bytes([i + 9] * 32)) for i in range(1, 4)}},
     "expected a threshold of more than half of 8 clients, received 3"),
])
def test_keys_that_do_not_fit_are_refused(change, message):
    clients = {name: Participant.begin(session_of(), name, entropy_of(name)) for name in NAMES}
    with pytest.raises(accrue.UsageError, match=message):
        clients["ann"].share(change({name: client.public_keys for name, client in clients.items()}), entropy_of(1))


def test_clients_that_were_told_different_keys_share_nothing():
    """A server that puts a key of its own in place of dan's, for bob alone: bob's shares do not open at the others."""
    clients = {name: Participant.begin(session_of(), name, entropy_of(name)) for name in NAMES}
    members = {name: client.public_keys for name, client in clients.items()}
    sealed = {name: client.share({**members, "dan": _other(members["dan"])} if name == "bob" else members, entropy_of(name))
              for name, client in clients.items()}
    with pytest.raises(accrue.UsageError, match="shares that bob encrypted"):
        clients["ann"].mask(np.zeros(4, np.uint64), {name: sealed[name]["ann"] for name in NAMES if name != "ann"})


def test_a_client_goes_on_with_enough_members_alone():
    clients, routed = shared()
    words = np.zeros(4, np.uint64)
    with pytest.raises(accrue.UsageError, match="at least 3 clients, the threshold, received 2: ann, bob"):
        clients["ann"].mask(words, {"bob": routed["ann"]["bob"]})
    with pytest.raises(accrue.UsageError, match="members of the session: .* received mallory"):
        clients["ann"].mask(words, {**routed["ann"], "mallory": b""})
    clients["ann"].mask(words, routed["ann"])
    with pytest.raises(accrue.UsageError, match="at least 3 clients, the threshold, received 2"):
        clients["ann"].reveal(["ann", "bob"])
    with pytest.raises(accrue.UsageError, match="this client among them"):
        clients["ann"].reveal(["bob", "cleo", "dan"])
    assert set(clients["ann"].reveal(["ann", "bob", "cleo"]).keys) == {"dan", "eve"}


def test_the_server_refuses_what_does_not_fit():
    exchange = Exchange(session_of(), vectors_of())
    exchange.run()
    server, masked = exchange.server, exchange.masked
    ann = exchange.clients["ann"].public_keys
    for message, take in (
            ("keys that do not fit", lambda: server.take_keys("zoe", ann)),
            ("keys that do not fit", lambda: server.take_keys("ann", _other(ann))),
            ("shares of ann for each other member", lambda: server.take_sealed("ann", {"bob": b""})),
            ("masked words of a client that goes on, once", lambda: server.take_masked("ann", masked["ann"])),
            ("masked words of a client that goes on, once", lambda: server.take_masked("zoe", masked["ann"])),
            ("of the seeds of those in the sum", lambda: server.take_revealed("ann", exchange.revealed["ann"])),
            ("of the seeds of those in the sum", lambda: server.take_revealed("zoe", Revealed({}, {})))):
        with pytest.raises(accrue.UsageError, match=message):
            take()
    clients, _ = shared()
    server = Aggregator(session_of(), WORDS)
    for name, client in clients.items():
        server.take_keys(name, client.public_keys)
    server.close_keys()
    for name in clients:
        server.take_sealed(name, {other: b"" for other in NAMES if other != name})
    server.close_sealed()
    with pytest.raises(accrue.UsageError, match="16384 words of ann, received uint64"):
        server.take_masked("ann", masked["ann"][:5])
    with pytest.raises(accrue.UsageError, match="16384 words of ann, received int64"):
        server.take_masked("ann", masked["ann"].view(np.int64))


def test_wrong_shares_of_a_key_are_noticed():
    vectors = vectors_of()
    exchange = Exchange(session_of(), vectors, {"masked": ["eve"]})
    exchange.run()
    first = exchange.revealed["ann"]
    exchange.server._revealed["ann"] = Revealed(first.seeds, {"eve": first.keys["eve"] + 1})
    with pytest.raises(accrue.RunError, match="shares of one secret of eve, received shares that do not fit each other"):
        exchange.server.total()


def test_thresholds():
    assert [least_threshold(clients) for clients in (3, 4, 5, 10)] == [2, 3, 3, 6]
    check_run("x", 3, 2)
    for clients, threshold, message in ((2, 2, "at least 3 clients, received 2"), (5, 2, "a threshold of 3 to 5 for 5 clients, received 2"),
                                        (5, 6, "a threshold of 3 to 5 for 5 clients, received 6")):
        with pytest.raises(accrue.UsageError, match=message):
            check_run("x", clients, threshold)
    check_members("x", 2, 2)
    for clients, threshold, message in ((2, 3, "at least 3 clients, the threshold, received 2"), (6, 3, "more than half of 6 clients, received 3")):
        with pytest.raises(accrue.UsageError, match=message):
            check_members("x", clients, threshold)


def test_shamir_fits_published_shares():
    """Those of the example in Wikipedia's article, f(x) = 1234 + 166 x + 94 x^2."""
    published = {1: 1494, 2: 1942, 3: 2578, 4: 3402, 5: 4414, 6: 5614}
    coefficients = iter([166, 94])
    assert shamir.split(1234, 3, list(published), lambda: next(coefficients)) == published
    for chosen in itertools.combinations(published, 3):
        assert shamir.combine({point: published[point] for point in chosen}) == 1234
    assert shamir.combine({point: published[point] for point in (1, 2)}) != 1234


def test_shamir_agrees_with_interpolation_by_fractions():
    draw = random.Random(4)
    shares = shamir.split(draw.getrandbits(64), 5, range(1, 9), lambda: draw.getrandbits(64))  # too small to wrap around the prime
    for chosen in itertools.combinations(shares, 5):
        at_zero = sum(Fraction(shares[x]) * np.prod([Fraction(-y, x - y) for y in chosen if y != x]) for x in chosen)
        assert shamir.combine({x: shares[x] for x in chosen}) == at_zero


def test_shamir_holds_every_secret_of_32_bytes():
    draw = random.Random(5)
    for secret in (0, 1, 2**256 - 1, draw.getrandbits(256)):
        shares = shamir.split(secret, 3, range(1, 6), lambda: draw.randrange(shamir.PRIME))
        assert shamir.combine({x: shares[x] for x in (5, 1, 3)}) == secret
        assert all(share.bit_length() <= 8 * shamir.SHARE_BYTES for share in shares.values())
    assert all(pow(base, shamir.PRIME - 1, shamir.PRIME) == 1 for base in (2, 3, 5, 7)) and shamir.PRIME > 2**256


def test_fewer_shares_than_the_threshold_fit_every_secret_alike():
    """In a field of 11: all polynomials of degree 2 through any two shares of a coalition have constant terms that are uniform."""
    prime, points = 11, (2, 5)
    seen = {}
    for secret, one, two in itertools.product(range(prime), repeat=3):
        coefficients = iter([one, two])
        shares = shamir.split(secret, 3, points, lambda: next(coefficients), prime)
        seen.setdefault(tuple(shares.values()), []).append(secret)
    assert len(seen) == prime**2 and all(sorted(secrets) == list(range(prime)) for secrets in seen.values())
    with_three = {}
    for secret, one, two in itertools.product(range(prime), repeat=3):
        coefficients = iter([one, two])
        with_three.setdefault(tuple(shamir.split(secret, 3, (2, 5, 7), lambda: next(coefficients), prime).values()), set()).add(secret)
    assert all(len(secrets) == 1 for secrets in with_three.values()), "three shares fit one secret"


def test_masks_are_the_cipher():
    """AES-256 of a zero block under a zero key, as NIST publishes it (AESAVS, the key is all zero)."""
    assert with_masks(np.zeros(2, np.uint64), add=[bytes(32)]).tobytes().hex() == "dc95c078a2408989ad48a21492842087"
    words = vectors_of(words=2**15 + 3)["ann"]
    keys = [derive(b"secret", bytes([i])) for i in range(3)]
    masked = with_masks(words, add=keys[:2], subtract=keys[2:])
    assert not np.array_equal(masked, words) and np.array_equal(with_masks(masked, add=keys[2:], subtract=keys[:2]), words)
    zeros = np.zeros(2**15 + 3, np.uint64)
    assert len(np.unique(with_masks(zeros, add=keys[:1]))) == len(zeros), "parts of a stream do not repeat"


def test_pairs_agree_and_others_do_not():
    ann, bob, eve = (key_pair(bytes([i + 1] * 32)) for i in range(3))
    assert agree(ann, bob.public, b"x") == agree(bob, ann.public, b"x")
    assert len({agree(ann, bob.public, b"x"), agree(ann, bob.public, b"y"), agree(ann, eve.public, b"x"), agree(eve, bob.public, b"x")}) == 4
    assert "private" not in repr(ann)
    with pytest.raises(accrue.UsageError, match="expected an X25519 public key of 32 bytes, received 32 bytes that are none"):
        agree(ann, bytes(32), b"x")
    sealed = seal(bytes(32), b"text", b"context")
    assert unseal(bytes(32), sealed, b"context", "ann") == b"text" and b"text" not in sealed
    with pytest.raises(accrue.UsageError, match="shares that ann encrypted"):
        unseal(bytes(32), sealed, b"another", "ann")


def test_doubles_add_up_exactly():
    draw = random.Random(6)
    values = [draw.uniform(-1, 1) * 2.0**draw.randint(-1060, 1000) for _ in range(200)] + [5e-324, -1.7e308, 1.7e308, 0.0, -0.1, 0.1]
    digits = np.sum([np.array(digits_of("x", value), np.int64) for value in values], axis=0)
    exact = float(sum(map(Fraction, values)))
    assert value_of("x", digits) == exact and len(digits) == DIGITS
    assert sum(values) != exact, "doubles do not"
    assert all(value_of("x", digits_of("x", value)) == value for value in values)
    with pytest.raises(accrue.UsageError, match="x: expected a finite number, received nan"):
        digits_of("x", float("nan"))
    with pytest.raises(accrue.RunError, match="within the range of doubles"):
        value_of("x", 2 * np.array(digits_of("x", 1.7e308)))


@pytest.mark.parametrize("clients", [3, 7, 300])
def test_units_are_the_largest_that_a_client_needs(clients):
    stated = (-40, -37, 3, 88, -1000)
    units = NeededUnits(stated, clients, 88)
    draw = random.Random(clients)
    needs = [tuple(draw.choice([unit, *range((unit // 8 + 1) * 8, 89, 8)]) for unit in stated) for _ in range(clients)]
    total = np.add.reduce([units.words_of(each) for each in needs])
    assert units.largest(total, clients) == tuple(map(max, zip(*needs))) and len(total) == units.words
    assert units.largest(units.words_of(stated) * np.uint64(clients), clients) == stated
    with pytest.raises(accrue.RunError, match=f"counters of {clients} clients for parameter 0"):
        units.largest(np.add.reduce([units.words_of(each) for each in needs[1:]]), clients)
    with pytest.raises(accrue.UsageError, match="one of the exponents that a client may need, received another one"):
        units.words_of((-41, -37, 3, 88, -1000))


SHAPES = {"w": torch.Size([3, 2]), "b": torch.Size([2]), "unused": torch.Size([2, 2])}


def sums(scale, weight, **gradients):
    named = {name: torch.arange(SHAPES[name].numel()).reshape(SHAPES[name]) * scale for name in gradients}
    return accrue.Sums(0.1 * scale, weight, 7, 2, 1, named, gradients, (-40, -41, -42))


def test_words_of_sums_add_up_as_sums_do():
    layout = SumLayout(SHAPES, (-40, -41, -42))
    parts = [sums(5, 3.0, w=2, b=1), sums(-7, 4.5, b=2), sums(2**40, 2.0, w=1)]
    total = layout.sums_of("x", np.add.reduce([layout.words_of("x", each) for each in parts]))
    expected = parts[0] + parts[1] + parts[2]
    assert len(layout.words_of("x", parts[0])) == layout.words
    assert {name: value.tolist() for name, value in total.gradients.items()} == {name: value.tolist() for name, value in expected.gradients.items()}
    assert total.contributions == expected.contributions and "unused" not in total.gradients
    assert (total.weight, total.tokens, total.micro_batches, total.quarantined, total.units) == (9.5, 21, 6, 3, expected.units)
    assert total.loss_sum == pytest.approx(expected.loss_sum, rel=1e-15)
    assert not layout.sums_of("x", layout.words_of("x", accrue.Sums(0.0, 0.0, 0, 0, 3, {}, {}, expected.units))).gradients


@pytest.mark.parametrize("alter, message", [
    (lambda words: words.__setitem__(0, 2**50), "at most 140737488355328 units in w, as 2 contributions can have, received more"),
    (lambda words: words.__setitem__(9, 5), "at most 0 units in unused"),
    (lambda words: words.__setitem__(12, 2**16 + 1), "0 to 65536 contributions to w, received 65537"),
    (lambda words: words.__setitem__(13, -1), "0 to 65536 contributions to b, received -1"),
    (lambda words: words.__setitem__(15, -1), "tokens of at least 0, received -1"),
    (lambda words: words.__setitem__(18 + DIGITS - 1, -1), "weight of at least 0"),
    (lambda words: words.__setitem__(18 + DIGITS - 1, 2**62), "doubles"),
])
def test_a_sum_out_of_range_is_refused(alter, message):
    layout = SumLayout(SHAPES, (-40, -41, -42))
    words = layout.words_of("x", sums(5, 3.0, w=2, b=1))
    assert layout.sums_of("x", words).weight == 3.0
    alter(words.view(np.int64))
    with pytest.raises(accrue.RunError, match=message + ".*a client's part is wrong, and the sum does not tell whose"):
        layout.sums_of("x", words)
