"""Federated windows by Flower's messages: apps of Flower, its messages and records, in one process and in virtual time."""

import json

import pytest
import torch

import accrue

from federated_loop import BATCH, SIZES, STEPS, Folder, apps_of, equal, flwr_app, folder, run, task  # noqa: F401

from accrue.federated import RoundReport, client_app, messages, server_app
from accrue.federated.shares import draws, shares


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
    with pytest.raises(accrue.RunError, match=r"expected 3 clients, received 2 \(ann, cleo\) in 2 seconds; refused node 12: " + message):
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
    for grace in (-1.0, float("nan")):
        with pytest.raises(accrue.UsageError, match="a grace of at least 0 seconds"):
            server_app(file, clients=3, grace=grace)
    with pytest.raises(accrue.UsageError, match="a timeout above 0 seconds"):
        server_app(file, clients=3, timeout=0.0)
