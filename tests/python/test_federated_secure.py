"""Secure sums over Flower's messages, beside the same rounds without masks."""

import collections
import json
import math
import random

import numpy as np
import pytest

import accrue

from federated_loop import SIZES, STEPS, Folder, apps_of, equal, flwr_app, folder, in_one_run, run, task  # noqa: F401

from accrue.federated import FED_AVG, ExactWindow, LocalRounds, SecureSums, server_app
from accrue.federated.secure.answers import RECORD as PREFIX
from flwr.common.serde import context_from_proto, context_to_proto, recorddict_to_proto
from test_secure_sums import MOST_CHI_SQUARE, chi_square

RECORD = PREFIX + "sums"
NODES = dict(zip(SIZES, (11, 12, 13)))
Asked = collections.namedtuple("Asked", "name phase window attempt label request reply")


def mode_of(name, threshold=2, **options):
    return SecureSums(threshold, entropy=random.Random(name).randbytes, **options)


def facts_of(content):
    return json.loads(content["accrue.facts"]["json"])


class Watched:
    """A client's app. It notes what it was asked, and loses the answers of some phases: pairs of a window and a phase."""

    def __init__(self, name, app, lost=(), alter=None):
        self.name, self.app, self.lost, self.alter = name, app, set(lost), alter
        self.grid, self.asked = None, []

    def __call__(self, message, context):
        reply = self.app(message, context)
        if message.metadata.message_type == "query":
            return reply
        facts = facts_of(message.content)
        if self.alter is not None and reply.has_content():
            self.alter(facts, reply)
        self.asked.append(Asked(self.name, facts["phase"], facts["window"], facts["attempt"], facts.get("label"), message, reply))
        phase = facts["phase"] if facts.get("label") is None else f"{facts['phase']} {facts['label']}"
        self.grid.seconds[NODES[self.name]] = math.inf if (facts["window"], phase) in self.lost else 0
        return reply


class Rounds:
    """Rounds with secure sums. `lost`, `alter` and `kinds` (of Watched) are by a client's name."""

    def __init__(self, folder, *, lost=None, alter=None, kinds=None, threshold=2, inner=None, quorum=2, overrides=(), server=(), **options):
        def mode(name):
            return mode_of(name, threshold, mode=inner)

        self.apps = {name: (kinds or {}).get(name, Watched)(name, folder.client(name, mode=mode(name), overrides=overrides), (lost or {}).get(name, ()),
                                                            (alter or {}).get(name)) for name in SIZES}
        self.reports, self.parameters, self.grid = run(folder, list(self.apps.values()), mode=mode("server"), quorum=quorum, grace=1.0,
                                                       prepare=self._prepare, overrides=[*overrides, *server], **options)

    def _prepare(self, grid):
        for app in self.apps.values():
            app.grid = grid

    def keys(self):
        """The public keys that clients sent, for the round itself or along with the one before."""
        seen = [facts_of(each.reply.content) for each in self.asked()]
        return [facts["each"] for part in seen for facts in (part, part.get("next", {})) if facts.get("phase") == "keys"]

    def asked(self, **wanted):
        return [each for app in self.apps.values() for each in app.asked if all(getattr(each, key) == value for key, value in wanted.items())]


def words_of(asked, record="accrue.masked", name="sums"):
    return np.concatenate([each.reply.content[record][name].numpy().reshape(-1) for each in asked]).view(np.uint64)


@pytest.fixture(scope="module")
def module_folder(tmp_path_factory):
    """One for tests that only read what rounds came to."""
    with pytest.MonkeyPatch.context() as patch:
        in_one_run(patch)
        yield Folder(tmp_path_factory.mktemp("data"), {})


@pytest.fixture(scope="module")
def plain(module_folder):
    return run(module_folder, apps_of(module_folder))


@pytest.fixture(scope="module")
def secure(module_folder):
    return Rounds(module_folder)


def test_parameters_have_the_bits_of_rounds_without_masks(folder, plain, secure):
    reports, parameters, _ = plain
    assert equal(secure.parameters, parameters)
    assert [report.loss for report in secure.reports] == pytest.approx([report.loss for report in reports], rel=1e-14)
    assert all(report.weights == dict.fromkeys(SIZES) and not report.absent and not report.refused for report in secure.reports)
    assert "counted ann, bob, cleo" in str(secure.reports[0])
    assert {each.attempt for each in secure.asked()} == {0} and len(secure.asked()) == (5 + 3 * (STEPS - 1)) * len(SIZES)
    keys = {key for each in secure.keys() for pair in each.values() for key in pair}
    assert len(keys) == STEPS * len(SIZES) * 4, "each round and each sum has keys of its own"


def test_a_client_may_be_lost_in_each_phase(folder, plain):
    """Bob's sums count if its masked words arrived, whatever happens to it later. It is back in the next round."""
    phases = ["keys", "shares", "masked", "reveal units", "reveal sums"]
    secure = Rounds(folder, lost={"bob": list(enumerate(phases))}, overrides=[f"run.steps={len(phases)}"])

    def without_bob(windows):
        return run(folder, [folder.client(name, overrides=["run.steps=5"]) for name in SIZES], prepare=lambda grid: grid.silent[12].update(windows),
                   quorum=2, grace=1.0, overrides=["run.steps=5"])[1]

    assert equal(secure.parameters, without_bob({"0", "1", "2"}))
    assert not equal(secure.parameters, without_bob({"0", "1", "2", "3"})), "the comparison notices a client that is missing"
    assert [list(report.weights) for report in secure.reports] == [["ann", "cleo"]] * 3 + [list(SIZES)] * 2
    assert [dict(report.absent) for report in secure.reports] == [{"bob": "no answer in time"}] * 3 + [{}] * 2


@pytest.mark.parametrize("phase", ["masked", "reveal units", "reveal sums"])
def test_a_client_may_be_lost_in_a_round_whose_keys_were_sent_before(folder, phase):
    """The round after that begins with new keys, since it has none of bob."""
    secure = Rounds(folder, lost={"bob": [(1, phase)]}, overrides=["run.steps=4"])
    assert not secure.asked(window=1, phase="keys") and {each.attempt for each in secure.asked(window=1)} == {0}
    counts = phase != "masked"
    assert list(secure.reports[1].weights) == (list(SIZES) if counts else ["ann", "cleo"])
    # After the last phase it has sent its shares for the next round, too.
    is_prepared = phase == "reveal sums"
    assert bool(secure.asked(window=2, phase="keys", attempt=1)) != is_prepared and list(secure.reports[2].weights) == list(SIZES)
    assert not secure.asked(window=3, phase="keys"), "and the one after it has those of all"
    plain = run(folder, [folder.client(name, overrides=["run.steps=4"]) for name in SIZES], quorum=2, grace=1.0, overrides=["run.steps=4"],
                prepare=lambda grid: grid.silent[12].update(() if counts else {"1"}))[1]
    assert equal(secure.parameters, plain)


def test_keys_of_the_next_round_are_sent_once(folder):
    """A second request for them, or one for a later round, is refused, so no two sets of keys have the name of one attempt."""
    reasons = []

    class AskedAgain(Watched):
        def __call__(self, message, context):
            reply = super().__call__(message, context)
            facts = facts_of(message.content) if message.metadata.message_type == "train" else {}
            for change in ({}, {"window": facts.get("window", 0) + 2}) if facts.get("next", {}).get("phase") == "keys" else ():
                # The next phase of the round itself is one that may come, so it is the part for the next round which is refused.
                again = {**facts, "phase": "reveal", "label": "units", "survivors": list(SIZES), "next": {**facts["next"], **change}}
                message.content["accrue.facts"] = flwr_app.ConfigRecord({"json": json.dumps(again)})
                reasons.append(self.app(message, context_from_proto(context_to_proto(context))).error.reason)
            return reply

    secure = Rounds(folder, kinds={"bob": AskedAgain}, overrides=["run.steps=2"])
    assert len(reasons) == 2 and all("keys for round 1, once, received another request: a replay" in reason for reason in reasons)
    assert not secure.asked(window=1, phase="keys") and list(secure.reports[1].weights) == list(SIZES)


def test_a_client_without_fitting_keys_for_the_next_round_is_asked_for_new_ones(folder):
    def alter(facts, reply):
        if facts["phase"] == "masked" and facts["window"] == 0:
            stated = facts_of(reply.content)
            stated["next"]["each"]["sums"] = ["00" * 32, "01" * 32]
            reply.content["accrue.facts"] = flwr_app.ConfigRecord({"json": json.dumps(stated)})

    secure = Rounds(folder, alter={"bob": alter}, overrides=["run.steps=2"])
    assert secure.asked(window=1, phase="keys", attempt=1) and not secure.reports[0].refused
    assert [list(report.weights) for report in secure.reports] == [list(SIZES)] * 2


@pytest.mark.parametrize("phase", ["keys", "shares", "masked", "reveal units", "reveal sums"])
def test_with_fewer_clients_than_the_threshold_there_is_no_step(folder, phase):
    with pytest.raises(accrue.RunError, match=r"round 0: expected 2 clients, the threshold, received 1|federated window 0: expected sums of 2 clients"):
        Rounds(folder, lost={"bob": [(0, phase)], "cleo": [(0, phase)]}, timeout=5.0)


def test_larger_units_are_agreed_by_their_sum_alone(tmp_path):
    folder = Folder(tmp_path, {"bob": 4096.0})
    secure = Rounds(folder)
    assert equal(secure.parameters, run(folder, apps_of(folder))[1])
    again = {each.window for each in secure.asked(attempt=1)}
    assert 0 in again and len(again) < STEPS, "as without masks, the first window has to be run again"
    for window in again:
        assert not secure.asked(window=window, attempt=0, phase="reveal", label="sums"), "sums of some clients in smaller units are never unmasked"
    seen = [facts_of(each.reply.content) for each in secure.asked(window=0, phase="keys")]
    keys = [json.dumps(facts["each"][label]) for facts in seen for label in ("units", "sums")]
    assert len(set(keys)) == len(keys) == 12, "each attempt and each sum has keys of its own"


def test_local_rounds_have_the_bits_of_those_without_masks(folder):
    """Changes of parameters need larger units than gradients in the first round, so it has a second attempt."""
    mode, local = LocalRounds(2), ["optim.kind=sgd", "run.steps=2"]
    secure = Rounds(folder, inner=mode, overrides=local, server=FED_AVG, lost={"cleo": [(1, "masked")]})
    parameters = run(folder, [folder.client(name, mode=mode, overrides=local) for name in SIZES], mode=mode, overrides=[*local, *FED_AVG],
                     prepare=lambda grid: grid.silent[13].add("1"), quorum=2, grace=1.0)[1]
    assert equal(secure.parameters, parameters) and [list(report.weights) for report in secure.reports] == [list(SIZES), ["ann", "bob"]]


def test_evaluations_are_summed_with_masks(folder):
    held_out = ["data.val_fraction=0.34", "run.steps=2"]
    secure = Rounds(folder, overrides=held_out, evaluate_every=1)
    plain = run(folder, [folder.client(name, overrides=held_out) for name in SIZES], overrides=held_out, evaluate_every=1)[0]
    for mine, theirs in zip(secure.reports, plain, strict=True):
        assert mine.evaluation.loss == pytest.approx(theirs.evaluation.loss, rel=1e-14) and theirs.evaluation.losses
        assert not mine.evaluation.losses and not mine.evaluation.weights and not mine.evaluation.missing


def test_an_evaluation_below_the_quorum_stays_masked(folder):
    options = {"overrides": ["data.val_fraction=0.4", "run.steps=1"], "evaluate_every": 1, "timeout": 5.0, "quorum": 3}
    assert Rounds(folder, **options).reports[0].evaluation.loss > 0
    secure = Rounds(folder, lost={"cleo": [(1, "masked")]}, **options)
    assert secure.reports[0].evaluation.loss is None and not secure.asked(window=1, label="evaluation"), "no share is told"


def test_an_evaluation_of_too_few_stays_masked(folder):
    once = ["data.val_fraction=0.34", "run.steps=1"]
    lost = {"bob": [(1, "keys")], "cleo": [(1, "masked")]}
    evaluation = Rounds(folder, overrides=once, lost=lost, evaluate_every=1, timeout=5.0).reports[0].evaluation
    assert evaluation.loss is None and set(evaluation.missing) == {"bob", "cleo"}
    evaluation = Rounds(folder, overrides=once, lost={"cleo": lost["cleo"]}, evaluate_every=1).reports[0].evaluation
    assert evaluation.loss > 0 and set(evaluation.missing) == {"cleo"}


def test_what_a_client_sends_is_indistinguishable_from_uniform(folder, plain, secure):
    for name in SIZES:
        for vector in ("units", "sums"):
            words = words_of(secure.asked(name=name, phase="masked"), name=vector)
            assert (np.unique(words).size == words.size) if vector == "units" else chi_square(words) < MOST_CHI_SQUARE, (name, vector)
    worker = accrue.WindowWorker(folder.config("ann", ["ann"]))
    worker.load(plain[1])
    gradients = worker.run(0, [(0, 5)]).gradients.values()
    unmasked = np.concatenate([gradient.numpy().reshape(-1) for gradient in gradients]).view(np.uint64)
    assert chi_square(unmasked) > 1e4, "the same sums without masks are far from it"
    total = np.add.reduce([words_of([each]) for each in secure.asked(window=0, phase="masked")])
    assert chi_square(total) < MOST_CHI_SQUARE, "before seeds are known, even the sum is hidden"


def test_replayed_requests_are_refused(secure):
    context = secure.grid.contexts[NODES["ann"]]
    kept = context.state[RECORD]["json"]
    for each in secure.asked(name="ann"):
        reply = secure.apps["ann"].app(each.request, context)
        reason = "a round after 3, the last one unmasked" if each.phase == "keys" else "the attempt that is under way"
        assert reply.has_error() and reason in reply.error.reason and "replay" in reply.error.reason, each
    assert context.state[RECORD]["json"] == kept and json.loads(kept)["participants"] == {}, "no secrets are kept after the last phase"
    fresh = flwr_app.Context(1, 11, {}, flwr_app.RecordDict(), {})
    reply = secure.apps["ann"].app(secure.asked(name="ann", phase="masked")[0].request, fresh)
    assert "a client that lost its state" in reply.error.reason
    of_another_run = flwr_app.Context(2, 11, {}, context.state, {})
    assert secure.apps["ann"].app(secure.asked(name="ann", phase="keys")[0].request, of_another_run).has_content(), "runs of a series share their state"


def test_masks_hide_one_message_only(folder):
    """A second request for masked words, with another sum to hide, comes before the round goes on."""
    reasons = []

    class AskedAgain(Watched):
        def __call__(self, message, context):
            reply = super().__call__(message, context)
            if self.asked and self.asked[-1].phase == "masked":
                facts = {**facts_of(message.content), "draws": [[11, 13]]}
                message.content["accrue.facts"] = flwr_app.ConfigRecord({"json": json.dumps(facts)})
                reasons.append(self.app(message, context).error.reason)
            return reply

    secure = Rounds(folder, kinds={"bob": AskedAgain}, overrides=["run.steps=1"])
    assert len(reasons) == 1 and "expected each phase once and in order" in reasons[0]
    assert list(secure.reports[0].weights) == list(SIZES)


def test_a_client_may_be_a_new_process_for_each_message(folder, plain):
    """What it needs from one phase to the next is in Flower's context, which its node keeps in serialized form."""
    class Restarted(Watched):
        def __call__(self, message, context):
            self.app = folder.client("bob", mode=mode_of(f"bob {len(self.asked)}"), overrides=["run.steps=1"])
            read = context_from_proto(context_to_proto(context))
            reply = super().__call__(message, read)
            context.state = read.state
            return reply

    report = Rounds(folder, kinds={"bob": Restarted}, overrides=["run.steps=1"]).reports[0]
    assert list(report.weights) == list(SIZES) and report.loss == pytest.approx(plain[0][0].loss, rel=1e-14)


def test_replayed_answers_are_refused(folder):
    earlier = []

    def replay(facts, reply):
        if facts["phase"] == "masked":
            earlier.append(reply.content)
            reply.content = earlier[0]

    secure = Rounds(folder, alter={"bob": replay}, overrides=["run.steps=2"])
    assert secure.reports[1].refused == {"bob": "an answer to another request: a replay"} and list(secure.reports[1].weights) == ["ann", "cleo"]


def _facts(phase, change):
    def alter(facts, reply):
        if facts["phase"] == phase:
            stated = facts_of(reply.content)
            change(stated)
            reply.content["accrue.facts"] = flwr_app.ConfigRecord({"json": json.dumps(stated)})
    return alter


def _masked(change):
    def alter(facts, reply):
        if facts["phase"] == "masked":
            change(reply.content["accrue.masked"])
    return alter


def _record(name, record):
    def alter(facts, reply):
        if facts["phase"] == "masked":
            reply.content[name] = record
    return alter


@pytest.mark.parametrize("alter, reason", [
    (_facts("keys", lambda facts: facts.pop("each")), "a message without each"),
    (_facts("keys", lambda facts: facts["each"].update(sums="x")), "keys that are no pair"),
    (_facts("keys", lambda facts: facts["each"].update(sums=["xy", "z"])), "keys that are not hexadecimal"),
    (_facts("keys", lambda facts: facts["each"].update(sums=["00", "00"])), "expected two new keys of 32 bytes of bob, received keys that do not fit"),
    (_facts("keys", lambda facts: facts["each"].update(sums=["00" * 32, "01" * 32])), "expected an X25519 public key"),
    (_facts("keys", lambda facts: facts["each"].update(sums=[facts["each"]["sums"][0]] * 2)), "keys that do not fit"),
    (_facts("shares", lambda facts: facts["each"]["sums"].pop("ann")), "expected shares of bob for each other member"),
    (_facts("shares", lambda facts: facts["each"]["sums"].update(ann=7)), "shares that are not hexadecimal"),
    (_masked(lambda arrays: arrays.pop("units")), "words of sums, where units, sums are expected"),
    (_masked(lambda arrays: arrays.update(sums=flwr_app.Array(np.zeros(3, np.int64)))), "sums as torch.int64 [3]"),
    (_masked(lambda arrays: arrays.update(sums=flwr_app.Array(np.zeros(10**5, np.int64)))), "oversized"),
    (_masked(lambda arrays: setattr(arrays["sums"], "data", b"PK\3\4" + arrays["sums"].data[4:])), "sums, which cannot be read"),
    (_masked(lambda arrays: setattr(arrays["sums"], "data", arrays["sums"].data.replace(b"'shape': (", b"'shape': (1000000000000,"))), "sums as torch.int64 [1000000000000"),
    (_record("accrue.masked", flwr_app.ConfigRecord({"units": 1, "sums": 1})), "a ConfigRecord as accrue.masked, where arrays are expected"),
    (_record("accrue.facts", flwr_app.ConfigRecord({"json": "[" * 100000})), "a message without accrue's facts"),
])
def test_answers_that_do_not_fit_are_refused_by_name(folder, alter, reason):
    report = Rounds(folder, alter={"bob": alter}, overrides=["run.steps=1"]).reports[0]
    assert reason in report.refused["bob"] and list(report.weights) == ["ann", "cleo"]


@pytest.mark.parametrize("change", [lambda facts: facts["seeds"].popitem(), lambda facts: facts["seeds"].update(ann="ff" * 40), lambda facts: facts.pop("keys"),
                                    lambda facts: facts.update(seeds="none")])
def test_shares_that_do_not_fit_are_not_used(folder, plain, change):
    """Enough others told theirs, so bob's words stay in the sum."""
    report = Rounds(folder, alter={"bob": _facts("reveal", change)}, overrides=["run.steps=1"]).reports[0]
    assert list(report.weights) == list(SIZES) and report.loss == pytest.approx(plain[0][0].loss, rel=1e-14)


def test_a_sum_out_of_range_ends_the_run_without_a_name(folder):
    def add(arrays):
        words = arrays["sums"].numpy().copy()
        words[:8] += 2**61
        arrays.update(sums=flwr_app.Array(words))

    with pytest.raises(accrue.RunError, match="a client's part is wrong, and the sum does not tell whose"):
        Rounds(folder, alter={"bob": _masked(add)})


def bytes_of(watched):
    return sum(recorddict_to_proto(content).ByteSize() for each in watched for content in (each.request.content, each.reply.content))


def test_bytes(folder):
    """Of a model with some 50,000 parameters. The keys and shares of a round are a smaller part of a larger one."""
    larger = ["model.width=64", "run.steps=1"]
    secure = Rounds(folder, overrides=larger)

    class Counted:
        def __init__(self, app):
            self.app, self.bytes = app, 0

        def __call__(self, message, context):
            reply = self.app(message, context)
            if message.metadata.message_type == "train":
                self.bytes += sum(recorddict_to_proto(content).ByteSize() for content in (message.content, reply.content))
            return reply

    plain = [Counted(folder.client(name, overrides=larger)) for name in SIZES]
    run(folder, plain, overrides=larger)
    ratio = bytes_of(secure.asked()) / sum(each.bytes for each in plain)
    print(f"{bytes_of(secure.asked())} bytes, {ratio:.3f} times those without masks")
    assert 1.0 < ratio < 1.2


def test_plain_requests_are_refused_by_clients_with_secure_sums(folder, caplog):
    with pytest.raises(accrue.RunError, match="expected 3 clients, received 0"):
        run(folder, [folder.client(name, mode=mode_of(name)) for name in SIZES], timeout=2.0)
    assert "the same mode=... in server_app and client_app" in caplog.text


@pytest.mark.parametrize("options, message", [
    ({"overrides": ["precision.accumulate=fp32"]}, r'secure sums: expected precision.accumulate = "fixed", received "fp32"; try'),
    ({"threshold": 1}, "SecureSums: expected a threshold of at least 2, received 1; try more than half"),
    ({"threshold": 4, "quorum": 3}, "expected a threshold of 2 to 3 for 3 clients, received 4"),
    ({"threshold": 3}, "expected a quorum of at least the threshold, 3, received 2"),
])
def test_settings_that_hide_nothing_are_refused(folder, options, message):
    with pytest.raises(accrue.UsageError, match=message):
        Rounds(folder, **options)


def test_too_few_clients_are_refused(folder):
    file = folder.config("server", ["nothing"])
    with pytest.raises(accrue.UsageError, match="secure sums: expected at least 3 clients, received 2"):
        server_app(file, clients=2, mode=SecureSums(2))
    with pytest.raises(accrue.UsageError, match="expected a quorum of at least the threshold, 3, received 2"):
        server_app(file, clients=3, quorum=2, mode=SecureSums(3))
    with pytest.raises(accrue.UsageError, match="a function as entropy, received a value of type bytes"):
        SecureSums(2, entropy=b"random")
    server_app(file, clients=3, quorum=2, mode=SecureSums(2))
    for threshold in ("2", 0, None):
        with pytest.raises(accrue.UsageError, match="a whole number of at least 1 as threshold"):
            SecureSums(threshold)
    with pytest.raises(accrue.UsageError, match="a mode of rounds as mode"):
        SecureSums(2, ExactWindow)


def test_a_client_unmasks_one_sum_of_a_round(folder):
    """A server that asks for one more attempt after it unmasked the round's sums, to subtract them, gets no keys."""
    secure = Rounds(folder, overrides=["run.steps=1"])
    for name in SIZES:
        again = secure.asked(name=name, phase="keys")[0].request
        again.content["accrue.facts"] = flwr_app.ConfigRecord({"json": json.dumps({**facts_of(again.content), "attempt": 1})})
        reply = secure.apps[name].app(again, secure.grid.contexts[NODES[name]])
        assert "a round after 0, the last one unmasked, received attempt 1 of round 0" in reply.error.reason
