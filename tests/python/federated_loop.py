"""Federated runs in one process and in virtual time: apps of Flower with its messages and records, delivered by a grid that tests control."""

import collections
import json
import pathlib
import random

import pytest
import torch

flwr_app = pytest.importorskip("flwr.app", reason="Flower is not installed: scripts/setup.sh test")
from flwr.serverapp import Grid  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from accrue.federated import client_app, server_app  # noqa: E402

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


def in_one_run(patch):
    """A message takes its run from the process in which Flower starts an app."""
    for name in ("_task_id", "_run_id", "_node_id"):
        patch.setattr(TaskIdentity, name, 1)


@pytest.fixture(autouse=True)
def task(monkeypatch):
    in_one_run(monkeypatch)


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
        self.contexts = {node: flwr_app.Context(1, node, {}, flwr_app.RecordDict(), {}) for node in self.apps}
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
            reply = self.apps[node](message, self.contexts[node])
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


def equal(these, others):
    return set(these) == set(others) and all(torch.equal(these[name], others[name]) for name in these)


def apps_of(folder):
    return [folder.client(name) for name in SIZES]
