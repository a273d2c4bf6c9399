"""Federated rounds with differential privacy for each client."""

import math

import pytest
import torch

import accrue

pytest.importorskip("dp_accounting")

from federated_loop import SIZES, STEPS, equal, flwr_app, folder, run, task  # noqa: E402, F401

from accrue import privacy  # noqa: E402
from accrue.federated import ExactWindow, LocalRounds, SecureSums, client_app  # noqa: E402
from accrue.privacy import accountant  # noqa: E402
from accrue.privacy.clients import PrivateClients  # noqa: E402

CLIP = 1.2
FP32 = ["precision.accumulate=fp32"]
SGD = ["optim.kind=sgd", "optim.lr=1", "optim.momentum=0", "optim.weight_decay=0", "optim.clip=0", "optim.schedule.kind=constant"]


class Kept(ExactWindow):
    """An exact window that keeps what each client had before it was clipped."""

    def __init__(self):
        self.sums_by_name = {}

    def sums(self, task):
        self.sums_by_name.setdefault(task.name, []).append(super().sums(task))
        return self.sums_by_name[task.name][-1]


def mode_of(inner=None, *, key=b"a key", rate=1.0, ledger=None, **terms):
    stated = {"unit": "client", "clip": CLIP, "noise": 1.0, "delta": 1e-3, **terms}
    return PrivateClients(inner or ExactWindow(), privacy.Privacy(**stated), rate=rate, ledger=ledger, randomness=privacy.SeededRandomness(key))


def rounds_of(folder, mode, *, rounds=1, shared=(), alter=None, **options):
    apps = [folder.client(name, mode=mode, overrides=[*FP32, *shared]) for name in SIZES]
    prepare = (lambda grid: grid.alter.update(alter)) if alter else (lambda grid: None)
    return run(folder, apps, mode=mode, overrides=[*FP32, *SGD, *shared, f"run.steps={rounds}"], prepare=prepare, **options)


def start_of(folder):
    return accrue.WindowWorker(folder.config("start", list(SIZES)), FP32).parameters()


def moved(folder, parameters):
    return {name: value - parameters[name] for name, value in start_of(folder).items()}


def norm_of(named):
    return math.sqrt(sum(float(each.double().square().sum()) for each in named.values()))


def is_close(these, others, tolerance=1e-6):
    return set(these) == set(others) and all(torch.allclose(these[name], others[name], rtol=0, atol=tolerance) for name in these)


def test_without_noise_a_round_is_the_mean_of_clipped_means(folder):
    kept = Kept()
    _, parameters, _ = rounds_of(folder, mode_of(kept, noise=0.0))
    means = {name: {key: value / sums[0].weight for key, value in sums[0].gradients.items()} for name, sums in kept.sums_by_name.items()}
    norms = {name: norm_of(mean) for name, mean in means.items()}
    assert min(norms.values()) > CLIP and list(means) == list(SIZES)
    expected = {key: sum(mean[key] * (CLIP / norms[name]) for name, mean in means.items()) / len(SIZES) for key in parameters}
    assert is_close(moved(folder, parameters), expected)
    weights = {name: sums[0].weight for name, sums in kept.sums_by_name.items()}
    weighted = {key: sum(mean[key] * weights[name] for name, mean in means.items()) / sum(weights.values()) for key in parameters}
    assert not is_close(moved(folder, parameters), weighted), "without clipping, and by loss terms, it is another step"


def test_a_client_that_does_not_clip_counts_for_no_more(folder):
    norms = []

    def enlarge(content):
        norms.append(norm_of({name: torch.from_numpy(array.numpy().copy()) for name, array in content["accrue.gradients"].items()}))
        for name, array in content["accrue.gradients"].items():
            content["accrue.gradients"][name] = flwr_app.Array(array.numpy() * 1000)

    honest = rounds_of(folder, mode_of(noise=0.0))[1]
    altered = rounds_of(folder, mode_of(noise=0.0), alter={12: enlarge})[1]
    assert is_close(honest, altered), "the server clips again"
    assert len(norms) == 1 and norms[0] == pytest.approx(CLIP, rel=1e-6), "what a client sends is clipped"
    half = rounds_of(folder, mode_of(noise=0.0, clip=CLIP / 2))[1]
    assert not is_close(honest, half)


def test_a_client_whose_data_end_its_round_counts_as_nothing(folder):
    class Fails(ExactWindow):
        def sums(self, task):
            if task.name == "bob":
                raise accrue.RunError("run a window", "finite losses", "others", "other data")
            return super().sums(task)

    reports, parameters, _ = rounds_of(folder, mode_of(Fails(), noise=0.0))
    assert list(reports[0].weights) == list(SIZES) and not reports[0].refused
    assert norm_of(moved(folder, parameters)) <= 2 * CLIP / 3 * 1.000001


def test_each_run_of_a_mode_is_checked_and_accounted(folder):
    mode = mode_of(epsilon=accountant.epsilon_of([(1.0, 1.0, 3)], 1e-3) * 1.001)
    rounds_of(folder, mode, rounds=2)
    with pytest.raises(accrue.UsageError, match="at most epsilon .* after 2 rounds"):
        rounds_of(folder, mode, rounds=2)
    assert mode.epsilon == pytest.approx(accountant.epsilon_of([(1.0, 1.0, 2)], 1e-3))


def test_noise_is_added_once_by_the_server(folder):
    noisy, plain = (rounds_of(folder, mode_of(noise=noise))[1] for noise in (3.0, 0.0))
    difference = torch.cat([(noisy[name] - plain[name]).flatten() for name in plain]) * len(SIZES) / (3.0 * CLIP)
    assert float(difference.square().mean()) == pytest.approx(1, rel=5 * math.sqrt(2 / len(difference)))


def test_local_rounds_are_clipped_as_changes(folder):
    plain = rounds_of(folder, LocalRounds(2))[1]
    change = norm_of(moved(folder, plain))
    loose = rounds_of(folder, mode_of(LocalRounds(2), noise=0.0, clip=1000.0))[1]
    tight = rounds_of(folder, mode_of(LocalRounds(2), noise=0.0, clip=change / 10))[1]
    assert norm_of(moved(folder, loose)) == pytest.approx(change, rel=0.2), "clients count alike, and not by their terms"
    assert norm_of(moved(folder, tight)) <= change / 10 * 1.000001


def test_rounds_are_accounted_and_written(folder):
    path = folder.path / "clients.spent"
    limit = math.ceil(accountant.epsilon_of([(1.0, 1.0, STEPS + 2)], 1e-3))
    mode = mode_of(epsilon=limit, ledger=path)
    reports, _, _ = rounds_of(folder, mode, rounds=STEPS)
    assert mode.epsilon == pytest.approx(accountant.epsilon_of([(1.0, 1.0, STEPS)], 1e-3)) and len(path.read_text().splitlines()) == STEPS
    assert all(report.weights == dict.fromkeys(SIZES) and report.stepped for report in reports)
    rounds_of(folder, mode, rounds=2)  # of the same account
    with pytest.raises(accrue.UsageError, match=f"at most epsilon {limit} with what the ledger has, received .* after 1 round"):
        rounds_of(folder, mode)
    mode.close()
    with pytest.raises(accrue.UsageError, match=f"at most epsilon {limit} with what the ledger has, received .* after {STEPS} rounds"):
        rounds_of(folder, mode_of(epsilon=limit, ledger=path), rounds=STEPS)
    assert len(path.read_text().splitlines()) == STEPS + 2, "nothing is spent"


def test_clients_are_asked_at_the_rate(folder):
    mode = mode_of(rate=0.5, noise=1.0)
    reports, _, grid = rounds_of(folder, mode, rounds=6)
    counts = [len(report.weights) for report in reports]
    assert sum(counts) == grid.asked["train"] < 6 * len(SIZES) and len(set(counts)) > 1 and all(report.stepped for report in reports)
    assert mode.epsilon < accountant.epsilon_of([(1.0, 1.0, 6)], 1e-3)
    empty = mode_of(key=b"empty", rate=1e-9, noise=2.0)
    reports, parameters, _ = rounds_of(folder, empty)
    assert reports[0].weights == {} and reports[0].stepped and not equal(parameters, start_of(folder)), "a step of noise"


def test_a_client_that_is_away_counts_as_nothing(folder):
    reports, parameters, _ = run(folder, [folder.client(name, mode=mode_of(noise=0.0), overrides=FP32) for name in SIZES], mode=mode_of(noise=0.0),
                                 overrides=[*FP32, *SGD, "run.steps=1"], prepare=lambda grid: grid.silent[12].add("0"), quorum=2, grace=1.0)
    assert list(reports[0].weights) == ["ann", "cleo"] and dict(reports[0].absent) == {"bob": "no answer in time"}
    assert norm_of(moved(folder, parameters)) <= 2 * CLIP / 3 * 1.000001, "the divisor is the number of clients of the run"


def test_other_terms_and_formats_are_refused(folder, caplog):
    apps = [folder.client("ann", mode=mode_of(clip=9.0), overrides=FP32), *(folder.client(name, mode=mode_of(), overrides=FP32) for name in ("bob", "cleo"))]
    with pytest.raises(accrue.RunError, match="expected 3 clients, received 2"):
        run(folder, apps, mode=mode_of(), overrides=FP32, timeout=2.0)
    assert "the mode of client ann" in caplog.text
    with pytest.raises(accrue.UsageError, match='precision.accumulate of private clients: expected "fp32" or "fp64"'):
        run(folder, [folder.client(name, mode=mode_of()) for name in SIZES], mode=mode_of())
    with pytest.raises(accrue.UsageError, match="at most epsilon 0.5 after 4 steps, received .* with noise 1; try noise="):
        rounds_of(folder, mode_of(epsilon=0.5), rounds=4)
    with pytest.raises(accrue.UsageError, match='terms of the unit "client"'):
        mode_of(unit="sample")
    with pytest.raises(accrue.UsageError, match="a probability above 0 and at most 1 as rate"):
        mode_of(rate=0.0)
    with pytest.raises(accrue.UsageError, match="PrivateClients: expected ExactWindow or LocalRounds as mode, received SecureSums"):
        PrivateClients(SecureSums(2), privacy.Privacy(unit="client", clip=1.0, delta=1e-3, noise=1.0))
    with pytest.raises(accrue.UsageError, match="SecureSums: expected ExactWindow or LocalRounds as mode, received PrivateClients"):
        SecureSums(2, mode_of())
    with pytest.raises(accrue.UsageError, match="a mode of rounds as mode"):
        PrivateClients(client_app, privacy.Privacy(unit="client", clip=1.0, delta=1e-3, noise=1.0))
