"""Differential privacy of samples: clipping, sampling, noise, and the account of what was spent."""

import dataclasses
import json
import math
import pathlib
import random
import re

import numpy
import pytest
import torch
from torch.nn import functional

import accrue

dp_accounting = pytest.importorskip("dp_accounting")
from accrue import privacy  # noqa: E402
from accrue.privacy import accountant, clipping, noise, sampling  # noqa: E402

SAMPLES, EXPECTED, CLIP, VOCAB = 24, 6, 2.4, 24

CONFIG = """
[run]
out = "{folder}/run"
steps = {steps}
threads = 1
[model]
layers = 1
heads = 2
width = 8
context = 6
vocab = 24
[data]
train = ["{folder}/lines.jsonl"]
order = "sequential"
[batch]
samples = {expected}
micro = 4
[optim]
{optim}
clip = 0
schedule = {{kind = "constant"}}
"""
PLAIN, ADAM = 'kind = "sgd"\nlr = 1\nmomentum = 0\nweight_decay = 0', 'kind = "adamw"\nlr = 3e-2\nweight_decay = 0'


def gpt2(parameters: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The logits of a GPT-2 with one layer of two heads, by plain torch: tokens [T] -> [T, vocabulary]."""
    def linear(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(x, parameters[f"transformer.h.0.{name}.weight"], parameters[f"transformer.h.0.{name}.bias"])

    def norm(name: str, x: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], parameters[f"transformer.{name}.weight"], parameters[f"transformer.{name}.bias"])

    embedding = parameters["transformer.wte.weight"]
    x = embedding[tokens] + parameters["transformer.wpe.weight"][:len(tokens)]
    q, k, v = (each.view(len(tokens), 2, -1).transpose(0, 1) for each in linear("attn.c_attn", norm("h.0.ln_1", x)).chunk(3, dim=-1))
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(0, 1).flatten(1)
    x = x + linear("attn.c_proj", attended)
    x = x + linear("mlp.c_proj", functional.gelu(linear("mlp.c_fc", norm("h.0.ln_2", x)), approximate="tanh"))
    return functional.linear(norm("ln_f", x), embedding)


def loss_of(parameters: dict[str, torch.Tensor], ids: list[int]) -> torch.Tensor:
    tokens = torch.tensor(ids)
    return functional.cross_entropy(gpt2(parameters, tokens[:-1]), tokens[1:])


def draw_samples(count: int, seed: int) -> list[list[int]]:
    """Samples that differ in their number of loss terms."""
    draw = random.Random(seed)
    return [[draw.randrange(VOCAB) for _ in range(draw.randint(2, 7))] for _ in range(count)]


def write(path: pathlib.Path, samples: list[list[int]]) -> None:
    path.write_text("".join(json.dumps({"input_ids": ids, "labels": ids}) + "\n" for ids in samples))


@dataclasses.dataclass
class Setup:
    folder: pathlib.Path
    samples: list[list[int]]
    optim: str = PLAIN

    def config(self, *, steps: int = 4, expected: int = EXPECTED) -> pathlib.Path:
        path = self.folder / f"{steps}.{expected}.toml"
        path.write_text(CONFIG.format(folder=self.folder, steps=steps, expected=expected, optim=self.optim))
        return path

    def trainer(self, *, key: bytes = b"a key", steps: int = 4, expected: int = EXPECTED, ledger=None, **terms) -> privacy.PrivateTrainer:
        stated = {"clip": CLIP, "noise": 1.0, "delta": 1e-5, **terms}
        return privacy.PrivateTrainer(self.config(steps=steps, expected=expected), privacy.Privacy(**stated), ledger=ledger,
                                      randomness=privacy.SeededRandomness(key))


@pytest.fixture
def setup(tmp_path: pathlib.Path) -> Setup:
    samples = draw_samples(SAMPLES, seed=5)
    write(tmp_path / "lines.jsonl", samples)
    return Setup(tmp_path, samples)


def first_window(key: bytes = b"a key", samples: int = SAMPLES, expected: int = EXPECTED) -> list[int]:
    return sampling.poisson_sample(samples, expected / samples, privacy.SeededRandomness(key))


def gradients_by_torch(setup: Setup, parameters: dict[str, torch.Tensor], chosen: list[int]) -> list[dict[str, torch.Tensor]]:
    """The gradient of each sample's mean loss."""
    leaves = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    return [dict(zip(leaves, torch.autograd.grad(loss_of(leaves, setup.samples[sample]), list(leaves.values())))) for sample in chosen]


def norm_of(named: dict[str, torch.Tensor]) -> float:
    return math.sqrt(sum(float(each.double().square().sum()) for each in named.values()))


def step_of(trainer: privacy.PrivateTrainer) -> dict[str, torch.Tensor]:
    """The mean gradient of a step, at a learning rate of 1."""
    before = trainer.parameters()
    trainer.step()
    return {name: before[name] - value for name, value in trainer.parameters().items()}


def is_close(these, others, tolerance=1e-6) -> bool:
    return set(these) == set(others) and all(torch.allclose(these[name], others[name], rtol=0, atol=tolerance) for name in these)


def test_without_noise_a_step_is_that_of_a_loop(setup):
    trainer, chosen = setup.trainer(noise=0.0), first_window()
    gradients = gradients_by_torch(setup, trainer.parameters(), chosen)
    norms = [norm_of(each) for each in gradients]
    assert len(chosen) != EXPECTED and min(norms) < CLIP < max(norms), "a window of another size, and both sides of the clip"
    total = {name: sum(each[name] * min(1.0, CLIP / norm) for each, norm in zip(gradients, norms)) for name in gradients[0]}
    moved = step_of(trainer)
    assert is_close(moved, {name: each / EXPECTED for name, each in total.items()})
    assert not is_close(moved, {name: each / len(chosen) for name, each in total.items()}), "the divisor is not the window's own"
    assert not is_close(moved, {name: sum(each[name] for each in gradients) / EXPECTED for name in total}), "something is clipped"


def test_clipping_is_that_of_opacus(setup):
    pytest.importorskip("opacus")
    from opacus.optimizers import DPOptimizer

    trainer, chosen = setup.trainer(noise=0.0), first_window()
    gradients = gradients_by_torch(setup, trainer.parameters(), chosen)
    theirs = {name: torch.nn.Parameter(value) for name, value in trainer.parameters().items()}
    optimizer = DPOptimizer(torch.optim.SGD(theirs.values(), lr=1.0), noise_multiplier=0.0, max_grad_norm=CLIP, expected_batch_size=EXPECTED)
    for name, value in theirs.items():
        value.grad_sample = torch.stack([each[name] for each in gradients])
    optimizer.pre_step()
    moved = step_of(trainer)
    assert is_close(moved, {name: value.grad for name, value in theirs.items()}, 2e-6)  # Opacus divides by the norm + 1e-6
    assert not is_close(moved, {name: 1.001 * value.grad for name, value in theirs.items()}, 2e-6)


def test_a_gradient_never_counts_for_more_than_the_clip():
    draw = torch.Generator().manual_seed(3)
    like = {"a": torch.zeros(50, 20), "b": torch.zeros(7)}
    longest = 0
    for scale in (1e-3, 0.3, 1.0, 1e6):
        gradients = {name: scale * torch.randn(value.shape, generator=draw) for name, value in like.items()}
        one = clipping.ClippedSum(like, 0.7)
        norm = one.add(gradients, 2.0)
        assert norm == pytest.approx(math.sqrt(sum(float(each.double().square().sum()) for each in gradients.values())) / 2)
        units = [int(each) for value in one._sums.values() for each in value.flatten()]
        squares = sum(each * each for each in units)  # whole numbers of Python: exact
        assert squares * one._unit**2 <= 0.7**2
        longest = max(longest, squares * one._unit**2)
    assert longest == pytest.approx(0.7**2, rel=1e-6), "and not much less"


def test_sums_have_the_same_bits_in_any_order():
    draw = torch.Generator().manual_seed(3)
    gradients = [{"a": torch.randn(30, generator=draw)} for _ in range(9)]
    sums = []
    for order in (gradients, gradients[::-1]):
        sums.append(clipping.ClippedSum(gradients[0], 0.3))
        for each in order:
            sums[-1].add(each, 1.0)
    first, second = (each.with_noise(0.0, privacy.SystemRandomness())["a"] for each in sums)
    assert torch.equal(first, second) and first.norm() > 0


def test_what_is_not_finite_or_has_no_terms_counts_as_nothing(setup):
    one = clipping.ClippedSum({"a": torch.zeros(3)}, 1.0)
    assert one.add({"a": torch.tensor([1.0, math.inf, 0.0])}, 1.0) is None
    assert one.add({"a": torch.ones(3)}, 0.0) is None and one.add({"a": torch.ones(3)}, math.nan) is None
    assert one.with_noise(0.0, privacy.SystemRandomness())["a"].eq(0).all()
    write(setup.folder / "lines.jsonl", setup.samples)
    lines = (setup.folder / "lines.jsonl").read_text().splitlines()
    lines[3] = json.dumps({"input_ids": [1, 2, 3], "labels": [-100, -100, -100]})
    (setup.folder / "lines.jsonl").write_text("\n".join(lines) + "\n")
    trainer = setup.trainer(expected=SAMPLES, noise=0.0)
    report = trainer.step()
    assert (report.unprotected.samples, report.unprotected.left_out) == (SAMPLES, 1)
    broken = trainer.state_dict()
    broken["parameters"]["transformer.wte.weight"][0] = 3e38
    trainer.load_state_dict(broken)
    report = trainer.step()
    assert 1 < report.unprotected.left_out and all(value.isfinite().all() for value in trainer.parameters().values())


def test_noise_has_the_stated_variance():
    count, deviation = 400_000, 1e9
    drawn = noise.rounded_gaussian(count, deviation, privacy.SeededRandomness(b"noise")) / deviation
    # Of n squares of standard normal numbers the mean has the deviation sqrt(2 / n), of fourth powers sqrt(96 / n).
    assert abs(drawn.mean()) < 5 / math.sqrt(count)
    assert abs((drawn**2).mean() - 1) < 5 * math.sqrt(2 / count)
    assert abs((drawn**4).mean() - 3) < 5 * math.sqrt(96 / count)
    assert abs(((1.02 * drawn)**2).mean() - 1) > 5 * math.sqrt(2 / count), "2% more is seen"
    assert abs(numpy.corrcoef(drawn[::2], drawn[1::2])[0, 1]) < 5 / math.sqrt(count / 2)
    small = noise.rounded_gaussian(count, 0.8, privacy.SeededRandomness(b"small"))
    expected = [0.5 * (math.erf((k + 0.5) / (0.8 * math.sqrt(2))) - math.erf((k - 0.5) / (0.8 * math.sqrt(2)))) for k in range(-3, 4)]
    for k, p in zip(range(-3, 4), expected):
        assert abs((small == k).mean() - p) < 5 * math.sqrt(p * (1 - p) / count)


def test_noise_is_drawn_in_parts_of_any_size(monkeypatch):
    assert noise.rounded_gaussian(0, 1.0, privacy.SystemRandomness()).shape == (0,)
    monkeypatch.setattr(noise, "PART", 4)
    drawn = noise.rounded_gaussian(11, 1e6, privacy.SeededRandomness(b"parts"))
    assert drawn.shape == (11,) and len(set(drawn.tolist())) == 11


def test_samples_are_drawn_independently_at_the_rate():
    samples, rate, windows = 2000, 0.1, 200
    stream = privacy.SeededRandomness(b"windows")
    drawn = [sampling.poisson_sample(samples, rate, stream) for _ in range(windows)]
    assert all(each == sorted(set(each)) for each in drawn)
    sizes = numpy.array([len(each) for each in drawn])
    variance = samples * rate * (1 - rate)
    assert abs(sizes.mean() - samples * rate) < 5 * math.sqrt(variance / windows)
    assert sizes.var() == pytest.approx(variance, rel=5 * math.sqrt(2 / windows)), "sizes vary, unlike those of windows of a run"
    counts = numpy.bincount(numpy.concatenate(drawn), minlength=samples)
    assert counts.var() == pytest.approx(windows * rate * (1 - rate), rel=0.2)
    assert sampling.poisson_sample(3, 1.0, stream) == [0, 1, 2] and sampling.poisson_sample(3, 1e-30, stream) == []


def test_an_empty_window_is_a_step_of_noise(setup):
    key = next(key for key in (str(number).encode() for number in range(10_000)) if not first_window(key, expected=1))
    trainer = setup.trainer(key=key, expected=1, noise=2.0)
    moved = torch.cat([each.flatten() for each in step_of(trainer).values()])
    assert trainer.steps == 1 and trainer.epsilon > 0
    # The sum's deviation is noise * clip; the divisor is the expected number, 1.
    assert float(moved.square().mean()) == pytest.approx((2.0 * CLIP)**2, rel=5 * math.sqrt(2 / len(moved)))


def test_noise_is_added_once_to_every_element(setup):
    """The same window with and without noise, from the same stream, differs by noise alone."""
    noisy, plain = step_of(setup.trainer(noise=3.0)), step_of(setup.trainer(noise=0.0))
    difference = torch.cat([(noisy[name] - plain[name]).flatten() for name in plain]) * EXPECTED / (3.0 * CLIP)
    assert difference.ne(0).all()
    assert float(difference.square().mean()) == pytest.approx(1, rel=5 * math.sqrt(2 / len(difference)))


@pytest.mark.parametrize("samples, batch, noise_, epochs, delta, published", [
    (60_000, 150, 1.3, 15, 1e-5, 0.7242234026109595),  # TensorFlow Privacy, compute_dp_sgd_privacy_lib_test.py
    (100_000, 100, 1.0, 30, 1e-7, 1.4154988495444845),
])
def test_epsilon_is_the_published_one(samples, batch, noise_, epochs, delta, published):
    steps = samples // batch * epochs
    assert accountant.epsilon_of([(batch / samples, noise_, steps)], delta) == pytest.approx(published, rel=0.01)
    assert accountant.epsilon_of([(batch / samples, 1.03 * noise_, steps)], delta) != pytest.approx(published, rel=0.01)


def test_epsilon_is_that_of_the_library_for_several_kinds_of_steps():
    steps = [(0.01, 1.1, 300), (0.02, 0.9, 50), (0.25, 4.0, 7)]
    theirs = dp_accounting.rdp.RdpAccountant()
    mine = privacy.Accountant(1e-5)
    for process, (rate, noise_, count) in enumerate(steps):
        theirs.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_)), count)
        for _ in range(count):
            mine.spend(str(process), rate, noise_)
    assert mine.epsilon == pytest.approx(theirs.get_epsilon(1e-5), rel=0.01) and mine.steps == 357
    assert mine.epsilon_after(0.25, 4.0, 0) == mine.epsilon < mine.epsilon_after(0.25, 4.0)
    assert privacy.Accountant(1e-5).epsilon == 0


def test_noise_is_computed_for_the_stated_epsilon(setup):
    trainer = setup.trainer(noise=None, epsilon=3.0)
    spent = [report.epsilon for report in trainer]
    assert len(spent) == 4 and spent == sorted(spent) and 2.9 < spent[-1] <= 3.0
    assert trainer.end == "all 4 steps were taken"
    with pytest.raises(accrue.RefusedError, match="all 4 steps were taken"):
        trainer.step()


def test_an_epsilon_that_cannot_be_met_is_refused_with_the_noise_that_meets_it(setup):
    with pytest.raises(accrue.UsageError, match=r"at most epsilon 1 after 4 steps, received .* with noise 0.5; try noise=") as refused:
        setup.trainer(noise=0.5, epsilon=1.0)
    enough = float(refused.value.suggestion.split("=")[1].split(",")[0])
    assert setup.trainer(noise=enough, epsilon=1.0).privacy.noise == enough
    assert accountant.epsilon_of([(0.25, 0.97 * enough, 4)], 1e-5) > 1.0
    with pytest.raises(accrue.UsageError, match="received more with any noise; try fewer steps, a lower rate"):
        setup.trainer(noise=None, epsilon=1e-6)


def test_a_run_goes_on_from_its_state_with_the_same_bits(setup):
    straight = setup.trainer()
    reports = list(straight)
    first, second = setup.trainer(), setup.trainer()
    first.step(), first.step()
    torch.save(first.state_dict(), setup.folder / "state.pt")
    second.load_state_dict(torch.load(setup.folder / "state.pt"))
    assert second.steps == 2 and second.epsilon == first.epsilon == reports[1].epsilon
    assert [report.epsilon for report in second] == [report.epsilon for report in reports[2:]]
    assert all(torch.equal(value, second.parameters()[name]) for name, value in straight.parameters().items())
    assert not torch.equal(straight.parameters()["transformer.ln_f.bias"], first.parameters()["transformer.ln_f.bias"])


def test_an_older_state_takes_no_steps_back(setup):
    trainer = setup.trainer()
    trainer.step()
    old = trainer.state_dict()
    trainer.step()
    spent = trainer.epsilon
    trainer.load_state_dict(old)
    assert trainer.steps == 1 and trainer.epsilon == spent, "the model is the old one; what was seen was seen"
    assert trainer.step().epsilon > spent
    one, other = setup.trainer(key=b"one"), setup.trainer(key=b"other")
    for each in (one, other):
        each.load_state_dict(old)
        each.step()
    one.load_state_dict(other.state_dict())
    assert one.epsilon == pytest.approx(accountant.epsilon_of([(0.25, 1.0, 3)], 1e-5)), "two runs from one state: the first step once, and one of each"


def test_a_ledger_counts_what_a_checkpoint_does_not_know(setup):
    path = setup.folder / "lines.spent"
    died = setup.trainer(ledger=path)
    died.step()
    state = died.state_dict()
    died.step(), died.step()
    spent = died.epsilon
    with pytest.raises(accrue.UsageError, match="a file that no other process has"):
        setup.trainer(ledger=path)
    died.close()
    with path.open("a") as file:
        file.write('{"process": "died while writ')
    resumed = setup.trainer(ledger=path)
    assert resumed.epsilon == spent
    resumed.load_state_dict(state)
    assert resumed.steps == 1 and resumed.epsilon == spent
    resumed.step()
    resumed.close()
    with pytest.raises(accrue.RunError, match="a ledger that was closed"):
        resumed.step()
    assert resumed.steps == 2, "it is not taken"
    assert setup.trainer(ledger=path).epsilon == pytest.approx(accountant.epsilon_of([(0.25, 1.0, 4)], 1e-5))
    assert len(path.read_text().splitlines()) == 4


def test_a_ledger_learns_the_steps_of_a_state(setup):
    without = setup.trainer()
    without.step(), without.step()
    path = setup.folder / "lines.spent"
    for _ in range(2):
        trainer = setup.trainer(ledger=path)
        trainer.load_state_dict(without.state_dict())
        trainer.close()
    assert setup.trainer(ledger=path).epsilon == without.epsilon


def test_training_stops_before_it_exceeds_epsilon(setup):
    path = setup.folder / "lines.spent"
    limit = accountant.epsilon_of([(0.25, 1.0, 6)], 1e-5) * 1.001
    first = setup.trainer(ledger=path, epsilon=limit)
    assert len(list(first)) == 4
    first.close()
    second = setup.trainer(ledger=path, epsilon=limit)
    assert len(list(second)) == 2 and second.epsilon <= limit and "a further step would spend" in second.end
    before = second.parameters()
    with pytest.raises(accrue.RefusedError, match="a larger epsilon"):
        second.step()
    assert all(torch.equal(value, second.parameters()[name]) for name, value in before.items()) and len(path.read_text().splitlines()) == 6


def test_a_ledger_that_is_no_file_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere" / "visits.spent"):
        with pytest.raises(accrue.UsageError, match="a file that can be read and written"):
            privacy.Ledger(path)


def test_a_ledger_with_other_lines_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("a note\n")
    with pytest.raises(accrue.UsageError, match="a line of JSON for each step"):
        privacy.Ledger(tmp_path / "notes.txt")
    with pytest.raises(accrue.UsageError, match="a history of private steps"):
        privacy.Accountant(1e-5).merge({"run": [[0.1, 1.0]]})


@pytest.mark.parametrize("content", [b"a note", b'{"a": 1}', b'{"process": "a", "rate": 0.1, "noise": 1.0, "steps": -5}\n',
                                     b'{"process": "a", "rate": 0.1, "noise": NaN, "steps": 5}\n', b"\xff\xfe\n"])
def test_a_file_that_is_no_ledger_stays_as_it_is(tmp_path, content):
    (tmp_path / "train.toml").write_bytes(content)
    with pytest.raises(accrue.UsageError, match="a line of JSON for each step"):
        privacy.Ledger(tmp_path / "train.toml")
    assert (tmp_path / "train.toml").read_bytes() == content


def test_trainers_of_a_process_share_a_ledger(setup):
    ledger = privacy.Ledger(setup.folder / "shared.spent")
    first, second = setup.trainer(ledger=ledger), setup.trainer(ledger=ledger)
    for trainer in (first, second, first):
        trainer.step()
    assert first.epsilon == second.epsilon == pytest.approx(accountant.epsilon_of([(0.25, 1.0, 3)], 1e-5))
    second.load_state_dict(first.state_dict())
    assert second.epsilon == first.epsilon, "the same steps are not counted twice"


def test_a_window_that_fails_is_spent_and_reveals_nothing(setup, monkeypatch):
    trainer = setup.trainer()

    def fails(*_):
        raise accrue.RunError("run a window", "a finite norm", "an infinity", "nothing")

    monkeypatch.setattr(trainer._worker, "run", fails)
    report = trainer.step()
    assert report.unprotected.left_out == report.unprotected.samples and trainer.epsilon == pytest.approx(accountant.epsilon_of([(0.25, 1.0, 1)], 1e-5))


def test_samples_are_drawn_anew_without_a_seed(setup):
    def after_a_step():
        trainer = privacy.PrivateTrainer(setup.config(), privacy.Privacy(clip=CLIP, delta=1e-5, noise=1.0))
        trainer.step()
        return trainer.parameters()

    one, other = after_a_step(), after_a_step()
    assert not all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("terms, message", [
    ({"clip": 0}, "a finite number above 0 as clip, received 0.0; try clip=1.0"),
    ({"clip": "1"}, "a number as clip"),
    ({"delta": 1}, "a probability above 0 and below 1 as delta"),
    ({"noise": -1.0}, "a number from 0 to 128 as noise"),
    ({"noise": math.nan}, "a number from 0 to 128 as noise"),
    ({"epsilon": math.inf}, "a finite number above 0 as epsilon"),
    ({"noise": None}, "noise or epsilon, received neither"),
    ({"unit": "token"}, 'the unit "sample" or "client"'),
])
def test_wrong_terms_say_what_is_expected(terms, message):
    with pytest.raises(accrue.UsageError, match=message):
        privacy.Privacy(**{"clip": 1.0, "noise": 1.0, "delta": 1e-5, **terms})


@pytest.mark.parametrize("overrides, message", [
    (["data.packing=true"], "data.packing of private training"),
    (["data.order=shuffle"], 'data.order of private training: expected "sequential"'),
    (["precision.accumulate=fixed"], "precision.accumulate of private training"),
    (["batch.samples=25"], "batch.samples of private training: expected at most the 24 samples"),
    (['data.train=[{{path = "{folder}/lines.jsonl", weight = 2}}, {{path = "{folder}/lines.jsonl", weight = 1}}]'], "data.train without weights"),
    (["run.epochs=2"], "run.steps of a process without data"),
])
def test_what_breaks_the_guarantee_is_refused_by_key(setup, overrides, message):
    with pytest.raises(accrue.UsageError, match=message):
        privacy.PrivateTrainer(setup.config(), privacy.Privacy(clip=1.0, noise=1.0, delta=1e-5),
                               overrides=[each.format(folder=setup.folder) for each in overrides])


def test_wrong_calls_say_what_is_expected(setup):
    with pytest.raises(accrue.UsageError, match="a delta below 1 / 24"):
        setup.trainer(delta=0.05)
    with pytest.raises(accrue.UsageError, match="the terms, a Privacy"):
        privacy.PrivateTrainer(setup.config(), {"clip": 1.0})
    with pytest.raises(accrue.UsageError, match='terms of the unit "sample", received "client"'):
        setup.trainer(unit="client")
    with pytest.raises(accrue.UsageError, match="overrides: expected a list"):
        privacy.PrivateTrainer(setup.config(), privacy.Privacy(clip=1.0, noise=1.0, delta=1e-5), overrides="optim.lr=1")
    with pytest.raises(accrue.UsageError, match="bytes as key"):
        privacy.SeededRandomness("key")


def attack(parameters: dict[str, torch.Tensor], members: list[list[int]], others: list[list[int]]) -> float:
    """The AUC of telling members from others by their losses: the probability that a member's loss is the smaller one."""
    inside, outside = (torch.stack([loss_of(parameters, ids) for ids in samples]) for samples in (members, others))
    return float((inside[:, None] < outside[None, :]).double().mean())


def test_members_of_an_overfitted_model_are_found_unless_it_is_private(tmp_path):
    pairs = [[first, second] for first in range(VOCAB) for second in range(VOCAB)]
    random.Random(7).shuffle(pairs)
    members, others = pairs[:100], pairs[100:]
    write(tmp_path / "lines.jsonl", members)
    setup = Setup(tmp_path, members, ADAM)
    file = setup.config(steps=40, expected=100)
    worker = accrue.WindowWorker(file, ["batch.micro=100"])
    overfitted = accrue.SumStepper(file, worker.shape)
    for _ in range(40):
        worker.load(overfitted.parameters())
        overfitted.step(worker.run(overfitted.window, [(0, 100)]))
    assert attack(overfitted.parameters(), members, others) >= 0.8
    private = setup.trainer(steps=8, expected=40, noise=6.3, epsilon=0.5, delta=1e-3)
    assert [report.step for report in private][-1] == 8
    assert 0.4 <= attack(private.parameters(), members, others) <= 0.55


def test_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "privacy.md"
    blocks = re.findall(r"^```(toml|python)\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert [kind for kind, _ in blocks] == ["python", "toml", "python", "python", "python"]
    names = {"__name__": "guide"}
    for kind, block in blocks:
        if kind == "toml":
            (tmp_path / "train.toml").write_text(block)
        else:
            exec(compile(block, str(page), "exec"), names)
    printed = capsys.readouterr().out
    assert "all 20 steps were taken" in printed and "in 20 lines of the ledger" in printed and (tmp_path / "model.pt").exists()
    assert re.search(r"step 12: epsilon 7\.\d\d\nall 12 steps were taken", printed)
