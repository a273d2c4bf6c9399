"""Local rounds, evaluation and personal parameters, beside loops by hand with plain optimizers and Flower's own mean."""

import itertools
import json
import os
import subprocess

import pytest
import torch

import accrue

from federated_loop import BATCH, SIZES, Folder, apps_of, equal, flwr_app, folder, run, task, write_lines  # noqa: F401

from accrue.federated import FED_ADAM, FED_AVG, ExactWindow, LocalRounds, client_app, messages, server_app
from accrue.federated.personal import personal_names
from accrue.federated.shares import draws, shares
from accrue.federated.units import coded, recoded, unit_for
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

PROGRAM = os.environ.get("ACCRUE_PROGRAM")
RATE, MOMENTUM, STEPS, ROUNDS = 0.25, 0.9, 3, 2
# Half of the distance of an fp32 number near 1 from the next one.
HALF_ULP = 2.0**-24


def sgd(rate=RATE, momentum=0.0):
    return ["optim.kind=sgd", f"optim.lr={rate}", f"optim.momentum={momentum}", "optim.weight_decay=0", "optim.clip=0", "optim.schedule.kind=constant"]


def rounds_of(folder, mode, *, client=(), server=FED_AVG, rounds=ROUNDS, shared=(), **options):
    """Runs rounds of a mode, with these overrides of the clients' and the server's configs, and of both."""
    apps = [folder.client(name, mode=mode, overrides=[*client, *shared]) for name in SIZES]
    return run(folder, apps, mode=mode, overrides=[*server, *shared, f"run.steps={rounds}"], **options)


def exact(folder, *, rounds=1, rate=RATE):
    return run(folder, apps_of(folder), overrides=[*sgd(rate), f"run.steps={rounds}"])[1]


class Sgd:
    """torch.optim.SGD in two lines: importing that costs seconds."""

    def __init__(self, rate, momentum=0.0):
        self.rate, self.momentum, self.buffers = rate, momentum, {}

    def step(self, values, gradients):
        for name, gradient in gradients.items():
            self.buffers[name] = gradient if name not in self.buffers else self.momentum * self.buffers[name] + gradient
            values[name] = values[name] - self.rate * self.buffers[name]


class Adam:
    """Kingma and Ba's, with bias correction, in fp64."""

    def __init__(self, rate, beta1, beta2, eps):
        self.rate, self.betas, self.eps, self.steps, self.moments = rate, (beta1, beta2), eps, 0, {}

    def step(self, values, gradients):
        self.steps += 1
        for name, gradient in gradients.items():
            gradient = gradient.double()
            first, second = self.moments.get(name, (0.0, 0.0))
            first, second = (beta * old + (1 - beta) * new for beta, old, new in zip(self.betas, (first, second), (gradient, gradient**2)))
            self.moments[name] = first, second
            mean, square = (moment / (1 - beta**self.steps) for beta, moment in zip(self.betas, (first, second)))
            values[name] = (values[name].double() - self.rate * mean / (square.sqrt() + self.eps)).float()


class ByHand:
    """Local rounds written out: accrue computes sums of gradients, plain optimizers step, Flower's strategy averages."""

    def __init__(self, folder, *, momentum=0.0, proximal=0.0, outer=None, weigh=lambda weight: weight, counted=lambda window: SIZES, rounds=ROUNDS,
                 steps=STEPS):
        total, first, server, workers = sum(SIZES.values()), 0, None, {}
        for (name, size), share in zip(SIZES.items(), shares(BATCH, list(SIZES.values()))):
            worker = accrue.WindowWorker(folder.config(f"{name}.hand", [name]))
            worker.take_place(first, total)
            workers[name] = (worker, share, first, size)
            server = server or worker.parameters()
            first += size
        outer = outer or Sgd(1.0)
        self.losses = []
        for window in range(rounds):
            changed, sums = [], []
            for name in counted(window):
                worker, share, first, size = workers[name]
                end, losses, weight = self._local(worker, server, proximal, momentum,
                                                  [(step, draws(step, share, first, size, total)) for step in range(window * steps, (window + 1) * steps)])
                arrays = flwr_app.ArrayRecord({key: flwr_app.Array(value) for key, value in end.items()})
                changed.append(flwr_app.RecordDict({"arrays": arrays, "metrics": flwr_app.MetricRecord({"weight": float(weigh(weight))})}))
                sums.append((losses, weight))
            mean = aggregate_arrayrecords(changed, "weight")
            outer.step(server, {key: (value.double() - torch.from_numpy(mean[key].numpy()).double()).float() for key, value in server.items()})
            self.losses.append(sum(losses for losses, _ in sums) / sum(weight for _, weight in sums))
        self.parameters = server

    @staticmethod
    def _local(worker, start, proximal, momentum, windows):
        now, optimizer = dict(start), Sgd(RATE, momentum)
        losses = weights = 0.0
        for window, ranges in windows:
            worker.load(now)
            sums = worker.run(window, ranges)
            means = {key: sums.gradients[key].double() * 2.0**unit / sums.weight for key, unit in zip(now, sums.units)}
            optimizer.step(now, {key: (mean + proximal * (now[key] - start[key]).double()).float() for key, mean in means.items()})
            losses, weights = losses + sums.loss_sum, weights + sums.weight
        return now, losses, weights


def distance(these, others):
    """The largest difference of an element, in half ulps of its parameter's largest value."""
    assert set(these) == set(others)
    return max(float((these[name] - others[name]).abs().max() / (others[name].abs().max() * HALF_ULP + 1e-12)) for name in these)


# Each step rounds a parameter once, and the mean, its code and the outer step once each; a rounded gradient changes the next steps by less than that.
def most(rounds, steps):
    return 2 * rounds * (steps + 4)


def test_one_local_step_is_an_exact_window(folder):
    """Samples have 3 to 12 tokens, so a mean of clients' means would be another step."""
    _, parameters, _ = rounds_of(folder, LocalRounds(1), client=sgd(), rounds=1)
    assert distance(parameters, exact(folder)) <= most(1, 1)
    assert distance(parameters, exact(folder, rate=1.001 * RATE)) > most(1, 1), "a rate that is 0.1% larger is seen"
    assert distance(ByHand(folder, rounds=1, steps=1, weigh=lambda weight: 1).parameters, exact(folder)) > most(1, 1), "equal weights are another step"


@pytest.mark.parametrize("accumulate", ["fixed", "fp32"])
def test_local_rounds_are_fedavg(folder, accumulate):
    shared = [f"precision.accumulate={accumulate}"]
    reports, parameters, _ = rounds_of(folder, LocalRounds(STEPS), client=sgd(momentum=MOMENTUM), shared=shared)
    hand = ByHand(folder, momentum=MOMENTUM)
    assert distance(parameters, hand.parameters) <= most(ROUNDS, STEPS)
    assert [report.loss for report in reports] == pytest.approx(hand.losses, rel=1e-5)
    for wrong in (ByHand(folder, momentum=MOMENTUM, weigh=lambda weight: 1), ByHand(folder), ByHand(folder, momentum=MOMENTUM, steps=2)):
        assert distance(parameters, wrong.parameters) > most(ROUNDS, STEPS), "equal weights, no momentum and fewer steps are seen"


@pytest.mark.parametrize("accumulate", ["fixed", "fp32"])
def test_fedprox_draws_clients_to_the_server(folder, accumulate):
    _, parameters, _ = rounds_of(folder, LocalRounds(STEPS, proximal=0.5), client=sgd(), shared=[f"precision.accumulate={accumulate}"])
    assert distance(parameters, ByHand(folder, proximal=0.5).parameters) <= most(ROUNDS, STEPS)
    assert distance(parameters, ByHand(folder, proximal=0.505).parameters) > most(ROUNDS, STEPS)


@pytest.mark.parametrize("server, outer", [
    ([*FED_AVG, "optim.momentum=0.9"], lambda: Sgd(1.0, 0.9)),
    ([*FED_ADAM, "optim.lr=0.01"], lambda: Adam(0.01, 0.9, 0.99, 1e-3)),
])
def test_the_servers_optimizer_is_the_outer_one(folder, server, outer):
    _, parameters, _ = rounds_of(folder, LocalRounds(STEPS), client=sgd(), server=server, rounds=3)
    assert distance(parameters, ByHand(folder, outer=outer(), rounds=3).parameters) <= 4 * most(3, STEPS)
    assert distance(parameters, ByHand(folder, rounds=3).parameters) > 40 * most(3, STEPS)


def test_the_clients_optimizer_begins_anew_in_each_round_and_its_schedule_goes_on(folder):
    """With AdamW on the clients, whose state would show, and a rate that falls to 0 over the steps of all rounds.

    Its eps is large, since a gradient that is 0 but for rounding would otherwise decide a step.
    """
    adamw = ["optim.lr=1e-2", "optim.clip=0", "optim.eps=1e-2"]
    _, parameters, _ = rounds_of(folder, LocalRounds(2), client=adamw)
    config, server = folder.config("ann.alone", ["ann"]), None
    total, first, parts = sum(SIZES.values()), 0, []
    for (name, size), share in zip(SIZES.items(), shares(BATCH, list(SIZES.values()))):
        worker = accrue.WindowWorker(folder.config(f"{name}.alone", [name]))
        worker.take_place(first, total)
        parts.append((worker, share, first, size))
        server, first = server or worker.parameters(), first + size
    for window in range(ROUNDS):
        mean, weights = {key: 0.0 for key in server}, 0.0
        for worker, share, first, size in parts:
            stepper = accrue.SumStepper(config, worker.shape, [*adamw, f"run.steps={2 * ROUNDS}"])
            stepper.load_state_dict({**stepper.state_dict(), "steps": 2 * window, "windows": 2 * window})
            stepper.load(server)
            weight = 0.0
            for step in (2 * window, 2 * window + 1):
                worker.load(stepper.parameters())
                sums = worker.run(step, draws(step, share, first, size, total), stepper.units)
                stepper.step(sums)
                weight += sums.weight
            mean = {key: value + weight * stepper.parameters()[key].double() for key, value in mean.items()}
            weights += weight
        server = {key: (value / weights).float() for key, value in mean.items()}
    assert distance(parameters, server) <= 4 * most(ROUNDS, 2)
    assert distance(rounds_of(folder, LocalRounds(2), client=[*adamw, "optim.schedule.kind=constant"])[1], server) > 40 * most(ROUNDS, 2)


def sums_sent(folder, mode, accumulate):
    """The sums of one round, by client."""
    sent = {}

    def prepare(grid):
        for node, name in zip(grid.apps, SIZES):
            grid.alter[node] = lambda content, name=name: sent.update({name: content})

    _, parameters, _ = rounds_of(folder, mode, client=sgd(1.0), shared=[f"precision.accumulate={accumulate}"], rounds=1, prepare=prepare)
    units = {name: tuple(messages.facts_of(content)["units"]) for name, content in sent.items()}
    dtype = messages.sum_dtype_of({"precision.accumulate": accumulate})
    return [messages.sums_of(content, messages.Expected(parameters, units[name], dtype)) for name, content in sent.items()]


def test_coded_changes_add_up_in_any_order(folder):
    def totals(accumulate):
        sums = sums_sent(folder, LocalRounds(2, proximal=0.1), accumulate)
        return [(a + b + c).gradients for a, b, c in itertools.permutations(sums)]

    first, *others = totals("fixed")
    assert all(equal(each, first) for each in others) and all(value.dtype == torch.int64 for value in first.values())
    first, *others = totals("fp32")
    assert not all(equal(each, first) for each in others), "in floating point the order is seen"


def test_values_in_units():
    values = torch.tensor([0.5, -1.25, 3 * 2.0**-41], dtype=torch.float64)
    assert coded(values, -40)[0].tolist() == [2**39, -5 * 2**38, 2] and coded(values, -40)[1] == -40
    assert unit_for(64.0) == -32 and unit_for(63.9) == -40 and unit_for(2.0**46) == 8
    large, unit = coded(torch.tensor([64.0, 2.0**-33], dtype=torch.float64), -40)
    assert (large.tolist(), unit) == ([2**38, 0], -32), "a half is rounded to even"
    assert recoded(torch.tensor([2**38 + 128, 384, -384]), -40, -32).tolist() == [2**30, 2, -2]


def test_a_client_with_large_changes_has_all_asked_again(tmp_path):
    """Weights of 4096 a token: bob's change times his loss terms does not fit the first units."""
    folder = Folder(tmp_path, {"bob": 4096.0})
    _, parameters, grid = rounds_of(folder, LocalRounds(STEPS), client=sgd())
    assert distance(parameters, ByHand(folder).parameters) <= most(ROUNDS, STEPS)
    assert grid.asked["train"] > ROUNDS * len(SIZES)


def test_local_rounds_close_by_quorum(folder):
    """bob is silent in one round, then gone in another, and comes back."""
    def prepare(grid):
        grid.silent[12] = {"1"}
        grid.gone[12] = {"2"}
        grid.seconds[13] = 3

    reports, parameters, _ = rounds_of(folder, LocalRounds(2), client=sgd(), rounds=4, prepare=prepare, quorum=2, grace=5.0)
    assert [dict(report.absent) for report in reports] == [{}, {"bob": "no answer in time"}, {"bob": "not connected"}, {}]
    assert [list(report.weights) for report in reports] == [list(SIZES), ["ann", "cleo"], ["ann", "cleo"], list(SIZES)]

    def counted(window):
        return SIZES if window in (0, 3) else ("ann", "cleo")

    assert distance(parameters, ByHand(folder, counted=counted, rounds=4, steps=2).parameters) <= most(4, 2)
    assert distance(parameters, ByHand(folder, rounds=4, steps=2).parameters) > most(4, 2)


def test_a_client_that_diverges_is_named(folder):
    mode = LocalRounds(3)
    apps = [folder.client(name, mode=mode, overrides=sgd(1e38 if name == "bob" else RATE)) for name in SIZES]
    reports, _, _ = run(folder, apps, mode=mode, overrides=[*FED_AVG, "run.steps=1"], quorum=2)
    assert list(reports[0].weights) == ["ann", "cleo"] and "finite" in reports[0].refused["bob"]


def with_validation(folder):
    for seed, name in enumerate(SIZES):
        write_lines(folder.path / f"{name}.val.jsonl", 3 + seed, 20 + seed)
    return {name: [f'data.val=["{folder.path / name}.val.jsonl"]'] for name in SIZES}


def test_clients_evaluate_their_own_data(folder):
    """The loss of each is that of `accrue train` on its own with a rate of 0, which has dropout in training alone."""
    val = with_validation(folder)
    apps = [folder.client(name, overrides=val[name]) for name in SIZES]
    reports, parameters, grid = run(folder, apps, overrides=[*sgd(), "run.steps=3"], evaluate_every=2)
    assert [report.evaluation is not None for report in reports] == [False, True, True], "and after the last round"
    assert grid.asked["evaluate"] == 2 * len(SIZES)
    reports, _, _ = run(folder, apps, overrides=[*sgd(1e-30), "run.steps=1"], evaluate_every=1)
    found = reports[0].evaluation
    for name in SIZES:
        worker = accrue.WindowWorker(folder.config(f"{name}.val", [f"{name}.val"]), ["model.dropout=0"])
        sums = worker.run(0, [(0, worker.samples)])
        assert found.losses[name] == pytest.approx(sums.loss_sum / sums.weight, rel=1e-6) and found.weights[name] == sums.weight
    assert found.loss == pytest.approx(sum(found.losses[name] * found.weights[name] for name in SIZES) / sum(found.weights.values()), rel=1e-12)
    assert abs(found.loss - sum(found.losses.values()) / len(SIZES)) > 1e-5 * found.loss, "clients count by their loss terms"
    assert found.losses["bob"] == pytest.approx(of_a_run(folder, val["bob"]), rel=1e-5)
    noisy = accrue.WindowWorker(folder.config("bob.val", ["bob.val"])).run(0, [(0, 4)])
    assert abs(noisy.loss_sum / noisy.weight - found.losses["bob"]) > 1e-5 * found.losses["bob"], "dropout would be seen"
    assert f"evaluation {found.loss:.6g}, ann {found.losses['ann']:.6g} with weight {found.weights['ann']:g}" in str(reports[0])


def of_a_run(folder, overrides):
    """The final evaluation of `accrue train` that leaves the parameters as they begin."""
    out = folder.path / "run"
    subprocess.run([PROGRAM, "train", folder.config("bob.run", ["bob"]), *(f"--{each}" for each in [*overrides, *sgd(1e-30)]), f"--run.out={out}", "--run.steps=1"],
                   check=True, capture_output=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["eval_loss"] for line in lines if "eval_loss" in line][-1]


def test_a_part_of_the_training_data_can_be_held_out(folder):
    held_out = ["data.val_fraction=0.25"]
    apps = [folder.client(name, overrides=held_out) for name in SIZES]
    reports, _, _ = run(folder, apps, overrides=["run.steps=1", "batch.samples=9", *sgd(1e-30)], evaluate_every=1)
    worker = accrue.WindowWorker(folder.config("cleo.all", ["cleo"]), ["model.dropout=0"])
    last = worker.run(0, [(6, 8)])
    assert worker.samples == 8 and reports[0].evaluation.losses["cleo"] == pytest.approx(last.loss_sum / last.weight, rel=1e-6)


def test_clients_without_validation_data_are_missing(folder):
    val = with_validation(folder)
    apps = [folder.client(name, overrides=val[name] if name != "bob" else []) for name in SIZES]
    reports, _, _ = run(folder, apps, overrides=["run.steps=1"], evaluate_every=1, prepare=lambda grid: grid.silent[13].add("1"), timeout=9.0)
    evaluation = reports[0].evaluation
    assert list(evaluation.losses) == ["ann"] and evaluation.loss == evaluation.losses["ann"]
    assert "expected data.val in the client's config" in evaluation.missing["bob"] and evaluation.missing["cleo"] == "no answer in time"
    assert not reports[0].absent and not reports[0].refused, "they counted in the round"


def personal(folder):
    return LocalRounds(2, personal=["h.0.mlp"], personal_folder=folder.path / "kept")


def test_personal_parameters_never_leave(folder):
    sent = []

    def prepare(grid):
        push = grid.push_messages

        def watched(pushed):
            sent.extend(each.content for each in pushed)
            return push(pushed)

        grid.push_messages = watched
        for node in grid.apps:
            grid.alter[node] = sent.append

    _, parameters, _ = rounds_of(folder, personal(folder), client=sgd(), prepare=prepare)
    own = personal_names(parameters, ["h.0.mlp"])
    names = {name for content in sent for record in ("accrue.parameters", "accrue.gradients") if record in content for name in content[record]}
    assert own and names == set(parameters) - set(own)
    begin = accrue.WindowWorker(folder.config("begin", ["ann"])).parameters()
    assert equal({name: parameters[name] for name in own}, {name: begin[name] for name in own}), "the server's stay as they began"
    kept = {name: torch.load(folder.path / "kept" / f"{name}.pt", weights_only=True)["after"] for name in SIZES}
    assert set(kept["ann"]) == set(own) and not equal(kept["ann"], kept["bob"]) and not equal(kept["ann"], {name: begin[name] for name in own})


def test_personal_parameters_outlive_processes_and_repeated_requests(tmp_path):
    """bob's changes do not fit the first units, so ann and cleo are asked twice in the first round: with the same values."""
    def parameters_of(folder, each_round):
        """The last parameters if clients are new processes in each round, or one for all."""
        mode = personal(folder)
        made = {name: [folder.client(name, mode=mode, overrides=sgd()) for _ in range(3)] for name in SIZES}

        def app_of(name):
            def app(message, context):
                window = message.metadata.group_id
                return made[name][int(window) if each_round and window.isdigit() else 0](message, context)
            return app

        return run(folder, [app_of(name) for name in SIZES], mode=mode, overrides=[*FED_AVG, "run.steps=3"])

    def folder_of(name, weights):
        (tmp_path / name).mkdir()
        return Folder(tmp_path / name, weights)

    _, parameters, grid = parameters_of(folder_of("one", {"bob": 4096.0}), False)
    assert grid.asked["train"] > 3 * len(SIZES)
    assert equal(parameters, parameters_of(folder_of("new", {"bob": 4096.0}), True)[1])
    folder = folder_of("lost", {"bob": 4096.0})
    kept = folder.path / "kept"
    _, lost, _ = rounds_of(folder, personal(folder), client=sgd(), rounds=3,
                           prepare=lambda grid: grid.alter.update({11: lambda content: (kept / "ann.pt").unlink(missing_ok=True)}))
    # The file of the last request goes only after it was written, so the next round begins with the model's values.
    assert not equal(parameters, lost)


def test_personal_files_that_cannot_be_read_are_refused(folder):
    (folder.path / "kept").mkdir()
    (folder.path / "kept" / "bob.pt").write_bytes(b"no tensors")
    reports, _, _ = rounds_of(folder, personal(folder), client=sgd(), rounds=1, quorum=2)
    assert "bob.pt: expected a file that LocalRounds wrote" in reports[0].refused["bob"]


def test_modes_are_agreed(folder, caplog):
    apps = [folder.client("ann", mode=LocalRounds(2)), folder.client("bob", mode=LocalRounds(3)), folder.client("cleo")]
    with pytest.raises(accrue.RunError, match=r"expected 3 clients, received 1 \(ann\)"):
        run(folder, apps, mode=LocalRounds(2), timeout=2.0)
    assert "the mode of client bob: expected {'name': 'local rounds', 'steps': 2" in caplog.text and "the mode of client cleo" in caplog.text


def test_a_client_refuses_requests_of_another_mode(folder):
    """A server that was agreed with as exact windows, and then asks for local rounds."""
    class Other(ExactWindow):
        def message(self, round_, facts, **tensors):
            return messages.pack({"mode": LocalRounds(9).stated(), "window": round_.window, **facts}, **tensors)

    with pytest.raises(accrue.RunError, match=r"ann: a request of the mode .*local rounds.*, where .*exact window.* is agreed"):
        run(folder, apps_of(folder), mode=Other())


def test_wrong_options_say_what_is_expected(folder):
    file = folder.config("server", ["nothing"])
    for make, message in [
        (lambda: LocalRounds(0), "a whole number of at least 1 as steps"),
        (lambda: LocalRounds(2, proximal=-1.0), "a finite number of at least 0 as proximal"),
        (lambda: LocalRounds(2, proximal="much"), "a number as proximal"),
        (lambda: LocalRounds(2, personal="lm_head"), r'a list of patterns as personal, received the text "lm_head"; try personal=\["lm_head"\]'),
        (lambda: LocalRounds(2, personal=[3]), "LocalRounds: expected a list of words as personal, received one with a value of type int"),
        (lambda: LocalRounds(2, personal_folder=3), "a path as personal_folder, received a value of type int"),
        (lambda: client_app(3), 'client_app: expected a path as config, received a value of type int; try config="FILE"'),
        (lambda: client_app(file, name=3), "client_app: expected a word as name"),
        (lambda: client_app(file, overrides="run.steps=1"), r'as overrides, received the text "run.steps=1"; try overrides=\["run.steps=1"\]'),
        (lambda: client_app(file, overrides=3), "client_app: expected a list of words as overrides, received a value of type int"),
        (lambda: server_app(None, clients=3), "server_app: expected a path as config, received a value of type NoneType"),
        (lambda: server_app(file, clients=3, overrides="run.steps=1"), "server_app: expected a list of words as overrides"),
        (lambda: server_app(file, clients=3, overrides=[None]), "received one with a value of type NoneType"),
        (lambda: server_app(file, clients=3, on_round="print"), "a function as on_round, received a value of type str; try leaving on_round out"),
        (lambda: server_app(file, clients=3, on_end=3), "a function as on_end"),
        (lambda: client_app(file, mode=LocalRounds(2, personal=["lm_head"])), 'personal_folder="/data/personal"'),
        (lambda: client_app(file, mode=LocalRounds), "a mode of rounds as mode, received a value of type LocalRounds"),
        (lambda: server_app(file, clients=3, mode="exact"), "a mode of rounds as mode, received a value of type str"),
        (lambda: server_app(file, clients=3, evaluate_every=0), "a whole number of at least 1 as evaluate_every"),
        (lambda: personal_names(["a.weight", "b.weight"], ["c"]), '"c", which matches nothing; try patterns of a.weight, b.weight'),
        (lambda: personal_names(["a.weight", "b.weight"], ["weight"]), "patterns that leave something to train together"),
    ]:
        with pytest.raises(accrue.UsageError, match=message):
            make()
