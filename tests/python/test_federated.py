"""Federated windows by Flower's messages: apps of Flower, its messages and records, in one process and in virtual time."""

import collections
import json
import pathlib
import random

import pytest
import torch

import accrue

flwr_app = pytest.importorskip("flwr.app", reason="Flower is not installed: scripts/setup.sh test")
from flwr.serverapp import Grid  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from accrue.federated import RoundReport, client_app, messages, server_app  # noqa: E402
from accrue.federated.shares import draws, shares  # noqa: E402

SIZES = {"ann": 10, "bob": 6, "cleo": 8}
STEPS, BATCH = 4, 12

CONFIG = """
[run]
out = "unused"
steps = {steps}
threads = 2
[model]
layers = 1
heads = 2
width = 16
context = 12
vocab = 40
dropout = 0.1
[data]
train = {data}
order = "sequential"
[batch]
samples = {batch}
micro = 2
[precision]
accumulate = "fixed"
[optim]
lr = 1e-2
"""


def write_lines(path, samples, seed, weight=1.0):
    draw = random.Random(seed)
    with path.open("w") as file:
        for _ in range(samples):
            ids = [draw.randrange(seed, 40) for _ in range(draw.randint(3, 12))]
            file.write(json.dumps({"input_ids": ids, "labels": ids, "weight": weight}) + "\n")


class Folder:
    """Data of three clients, and configs that differ in nothing but the data."""

    def __init__(self, path: pathlib.Path, weights: dict[str, float]):
        self.path = path
        for seed, (name, samples) in enumerate(SIZES.items()):
            write_lines(path / f"{name}.jsonl", samples, seed, weights.get(name, 1.0))

    def config(self, name: str, names: list[str]) -> str:
        file = self.path / f"{name}.toml"
        file.write_text(CONFIG.format(steps=STEPS, batch=BATCH, data=json.dumps([str(self.path / f"{each}.jsonl") for each in names])))
        return str(file)

    def client(self, name: str, **options):
        return client_app(self.config(name, [name]), name=name, **options)


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, {})


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """A message takes its run from the process in which Flower starts an app."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class VirtualTime:
    def __init__(self):
        self.seconds = 0.0

    def now(self):
        return self.seconds

    def pause(self, seconds):
        self.seconds += seconds


class LoopGrid(Grid):
    """Delivers messages in place. A node may be silent for some windows, slow, or gone."""

    def __init__(self, apps, clock):
        self.clock = clock
        self.apps = {node: app for node, app in enumerate(apps, start=11)}
        self.alter = {}  # by node: changes a reply to a window
        self.silent = collections.defaultdict(set)  # by node: windows that it does not answer
        self.gone = collections.defaultdict(set)  # by node: windows in which it is not connected
        self.seconds = collections.Counter()  # by node: how long an answer takes
        self.asked = collections.Counter()  # messages by kind
        self._answers, self._sent, self._window = {}, 0, 0

    run = property(lambda self: None)

    def set_run(self, run):
        raise NotImplementedError

    def create_message(self, *args, **options):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError

    def next_window(self):
        self._window += 1

    def get_node_ids(self):
        return [node for node in self.apps if str(self._window) not in self.gone[node]]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            self._sent += 1
            node, window = message.metadata.dst_node_id, message.metadata.group_id
            message.metadata.__dict__.update(_message_id=f"m{self._sent}", _run_id=1, _src_node_id=1)
            ids.append(message.metadata.message_id)
            self.asked[message.metadata.message_type] += 1
            if window in self.silent[node]:
                continue
            context = flwr_app.Context(1, node, {}, flwr_app.RecordDict(), {})
            reply = self.apps[node](message, context)
            if message.metadata.message_type == "train" and node in self.alter and reply.has_content():
                self.alter[node](reply.content)
            self._answers[ids[-1]] = (self.clock.now() + self.seconds[node], reply)
        return ids

    def pull_messages(self, message_ids):
        ready = [each for each in message_ids if each in self._answers and self._answers[each][0] <= self.clock.now()]
        return [self._answers.pop(each)[1] for each in ready]


def run(folder, apps, *, prepare=lambda grid: None, **options):
    """Runs all rounds. Returns the reports, the last parameters, the grid."""
    clock = VirtualTime()
    grid, reports, ended = LoopGrid(apps, clock), [], []
    prepare(grid)

    def on_round(report):
        reports.append(report)
        grid.next_window()

    server = server_app(folder.config("server", ["nothing"]), clients=len(SIZES), clock=clock, on_round=on_round,
                        on_end=lambda stepper: ended.append(stepper.parameters()), **options)
    server(grid, flwr_app.Context(1, 1, {}, flwr_app.RecordDict(), {}))
    return reports, ended[0], grid


def one_process(folder, counted=lambda window: SIZES, batch=BATCH):
    """What one process comes to that has all data, with the same samples in the same order and micro-batches."""
    file = folder.config("whole", list(SIZES))
    worker = accrue.WindowWorker(file)
    stepper = accrue.SumStepper(file, worker.shape)
    total, losses = sum(SIZES.values()), []
    for window in range(STEPS):
        ranges, first = [], 0
        for (name, size), share in zip(SIZES.items(), shares(batch, list(SIZES.values()))):
            if name in counted(window):
                ranges += draws(window, share, first, size, total)
            first += size
        worker.load(stepper.parameters())
        losses.append(stepper.step(worker.run(window, ranges, stepper.units)).loss)
    return losses, stepper.parameters()


def equal(these, others):
    return set(these) == set(others) and all(torch.equal(these[name], others[name]) for name in these)


def apps_of(folder):
    return [folder.client(name) for name in SIZES]


def test_shares_and_draws():
    assert shares(12, [10, 6, 8]) == [5, 3, 4] and shares(7, [1, 1, 1]) == [3, 2, 2]
    with pytest.raises(accrue.UsageError, match=r"batch.samples = 100 or more"):
        shares(8, [99, 1])
    assert draws(0, 5, 0, 10, 24) == [(0, 5)] and draws(2, 3, 10, 6, 24) == [(34, 37)]
    assert draws(1, 4, 16, 6, 30) == [(20, 22), (46, 48)], "it begins again in the middle of a window"
    assert draws(0, 7, 2, 3, 10) == [(2, 5), (12, 15), (22, 23)]


def test_rounds_have_the_bits_of_one_process_with_all_data(folder):
    reports, parameters, _ = run(folder, apps_of(folder))
    losses, expected = one_process(folder)
    assert equal(parameters, expected)
    assert [report.loss for report in reports] == pytest.approx(losses, rel=1e-12) and all(report.stepped for report in reports)
    assert not equal(parameters, one_process(folder, lambda window: {"ann", "bob"} if window == 1 else SIZES)[1]), "without a client's samples they differ"
    assert list(reports[0].weights) == list(SIZES) and not reports[0].absent and not reports[0].refused
    assert len(set(reports[0].weights.values())) > 1, "clients count by their loss terms"
    assert "counted ann with weight" in str(reports[0]) and isinstance(reports[0], RoundReport)


def test_a_client_that_needs_larger_units_has_all_run_again(tmp_path):
    folder = Folder(tmp_path, {"bob": 4096.0})
    _, parameters, grid = run(folder, apps_of(folder))
    assert equal(parameters, one_process(folder)[1])
    assert grid.asked["train"] > STEPS * len(SIZES), "ann and cleo were asked again"


def test_rounds_close_by_quorum(folder):
    """Node 12, bob, is silent in one window, then gone in another; node 13, cleo, is slow but within the grace."""
    def prepare(grid):
        grid.silent[12] = {"1"}
        grid.gone[12] = {"2"}
        grid.seconds[13] = 3

    reports, parameters, _ = run(folder, apps_of(folder), prepare=prepare, quorum=2, grace=5.0)
    assert [dict(report.absent) for report in reports] == [{}, {"bob": "no answer in time"}, {"bob": "not connected"}, {}]
    assert [list(report.weights) for report in reports] == [list(SIZES), ["ann", "cleo"], ["ann", "cleo"], list(SIZES)]
    assert equal(parameters, one_process(folder, lambda window: SIZES if window in (0, 3) else {"ann", "cleo"})[1])


def test_too_few_clients_end_the_run(folder):
    with pytest.raises(accrue.RunError, match=r"federated window 1: expected sums of 3 clients, received those of 2: bob: no answer in time"):
        run(folder, apps_of(folder), prepare=lambda grid: grid.silent[12].add("1"))
    with pytest.raises(accrue.RunError, match=r"expected 3 clients, received 2 \(ann, bob\) in 9 seconds"):
        run(folder, apps_of(folder)[:2], timeout=9.0)


def _facts(change):
    def alter(content):
        facts = json.loads(content["accrue.facts"]["json"])
        change(facts)
        content["accrue.facts"]["json"] = json.dumps(facts)
    return alter


def _array(change):
    def alter(content):
        name = next(iter(content["accrue.gradients"]))
        content["accrue.gradients"][name] = flwr_app.Array(change(content["accrue.gradients"][name].numpy()))
    return alter


def _added(content):
    content["accrue.gradients"]["of.another.model"] = next(iter(content["accrue.gradients"].values()))


@pytest.mark.parametrize("alter, reason", [
    (_facts(lambda facts: facts.update(weight=float("nan"))), "weight nan, where a finite number is expected"),
    (_facts(lambda facts: facts.update(weight=-3.0)), "weight -3.0, where at least 0 is expected"),
    (_facts(lambda facts: facts.update(loss_sum=float("inf"))), "loss_sum inf"),
    (_facts(lambda facts: facts.update(micro_batches=-1)), "micro_batches -1, where a count is expected"),
    (_facts(lambda facts: facts.update(units=[unit - 1 for unit in facts["units"]])), "units that are not those of the window"),
    (_facts(lambda facts: facts.update(units=[1000 for _ in facts["units"]])), "units that are not those of the window"),
    (_facts(lambda facts: facts["contributions"].popitem()), "counts of contributions for other parameters"),
    (_facts(lambda facts: facts["contributions"].update({next(iter(facts["contributions"])): 2**17})), "131072 contributions"),
    (_facts(lambda facts: facts.update(protocol=99)), "messages of version 99"),
    (lambda content: content.pop("accrue.facts"), "a message without accrue's facts"),
    (_added, "of.another.model, which is no parameter that is trained"),
    (_array(lambda values: values.astype("float32")), "torch.float32"),
    (_array(lambda values: values.reshape(-1)[:3]), r"torch.int64 [3]"),
    (_array(lambda values: values.repeat(999, axis=0)), "oversized"),
    (_array(lambda values: values + 2**61), "contributions cannot have: oversized"),
])
def test_sums_that_do_not_fit_are_refused(alter, reason):
    expected = messages.Expected({"w": torch.zeros(3, 2), "b": torch.zeros(2)}, (-40, -40), torch.int64)
    sums = accrue.Sums(2.5, 7.0, 9, 2, 0, {"w": torch.full((3, 2), 5), "b": torch.full((2,), 2**46)}, {"w": 2, "b": 2}, (-40, -40))
    read = messages.sums_of(messages.pack_sums(sums), expected)
    assert equal(read.gradients, sums.gradients) and (read.loss_sum, read.weight, read.units) == (2.5, 7.0, (-40, -40)), "unaltered they are taken"
    content = messages.pack_sums(sums)
    alter(content)
    with pytest.raises(messages.Refused) as refused:
        messages.sums_of(content, expected)
    assert reason in str(refused.value)


def test_values_in_floating_point_are_finite():
    expected = messages.Expected({"w": torch.zeros(2)}, (), None)

    def sums(value):
        return messages.pack_sums(accrue.Sums(1.0, 1.0, 1, 1, 0, {"w": torch.tensor([1.0, value])}, {"w": 1}))

    assert messages.sums_of(sums(2.0), expected).gradients["w"][1] == 2
    for value in (float("nan"), float("inf")):
        with pytest.raises(messages.Refused, match="w with values that are not finite"):
            messages.sums_of(sums(value), expected)


def test_a_client_whose_sums_are_refused_is_named_and_left_out(folder):
    alter = _array(lambda values: values + 2**61)
    reports, parameters, _ = run(folder, apps_of(folder), prepare=lambda grid: grid.alter.update({12: alter}), quorum=2, grace=1.0)
    assert all(list(report.refused) == ["bob"] and "oversized" in report.refused["bob"] for report in reports)
    assert list(reports[0].weights) == ["ann", "cleo"] and "refused bob: " in str(reports[0])
    assert equal(parameters, one_process(folder, lambda window: {"ann", "cleo"})[1])


@pytest.mark.parametrize("change, message", [
    (["model.width=32"], "model.width of client bob"),
    (["precision.accumulate=fp32"], "precision.accumulate of client bob"),
    (["run.seed=4"], "run.seed of client bob"),
])
def test_clients_with_other_configs_are_refused_by_key(folder, caplog, change, message):
    apps = [folder.client("ann"), folder.client("bob", overrides=change), folder.client("cleo")]
    with pytest.raises(accrue.RunError, match=r"expected 3 clients, received 2 \(ann, cleo\)"):
        run(folder, apps, timeout=2.0)
    assert message in caplog.text


def test_names_are_unique(folder, caplog):
    with pytest.raises(accrue.RunError, match=r"received 2"):
        run(folder, [folder.client("ann"), folder.client("bob"), folder.client("bob")], timeout=2.0)
    assert "the name bob, which another client has" in caplog.text


def test_simulated_clients_differ_by_their_context(folder):
    """As `flwr run` simulates: one app, and the partition of each node in its context."""
    names = dict(zip((11, 12, 13), SIZES))
    config = folder.config("any", ["ann"])

    def data_of(context):
        return [f'data.train=["{folder.path / names[context.node_id]}.jsonl"]']

    app = client_app(config, overrides=data_of)
    _, parameters, _ = run(folder, [app, app, app])
    assert equal(parameters, one_process(folder)[1])


def test_wrong_options_say_what_is_expected(folder):
    file = folder.config("server", ["nothing"])
    with pytest.raises(accrue.UsageError, match="a quorum of at most the 3 clients"):
        server_app(file, clients=3, quorum=4)
    with pytest.raises(accrue.UsageError, match="a whole number of at least 1 as clients"):
        server_app(file, clients=0)
    with pytest.raises(accrue.UsageError, match="a number as grace"):
        server_app(file, clients=3, grace="long")
