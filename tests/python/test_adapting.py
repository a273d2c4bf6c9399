"""The batch that follows the noise, in a loop of one's own."""

import math

import pytest
import torch

import accrue

ELEMENTS, SPREAD, DISTANCE = 400, 2.0, 0.6


class Quadratic(torch.nn.Module):
    """Samples x ~ N(0, SPREAD^2) pull at it by |p - x|^2 / 2: tr(Sigma) is SPREAD^2 * ELEMENTS, |G|^2 is DISTANCE^2 * ELEMENTS."""

    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.full((ELEMENTS,), DISTANCE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((self.p - x).square() / 2).sum()


TRUTH = (SPREAD / DISTANCE) ** 2


def window(acc: accrue.Accumulator, model: Quadratic, optimizer, parts: list[int], generator: torch.Generator) -> accrue.StepReport:
    for samples in parts:
        acc.backward(accrue.Loss(model(torch.randn(samples, ELEMENTS, generator=generator) * SPREAD), samples))
    return acc.step(optimizer)


@pytest.mark.parametrize("parts", [[1, 3], [1, 11], [4, 8]])
def test_the_noise_scale_comes_to_the_closed_form(parts):
    model, generator = Quadratic(), torch.Generator().manual_seed(3)
    acc = accrue.Accumulator(model, measure_noise=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for _ in range(200):
        report = window(acc, model, optimizer, parts, generator)
    assert report.noise_scale == pytest.approx(TRUTH, rel=0.12)
    assert report.noise_scale_low < TRUTH < report.noise_scale_high
    assert report.gradient_variance == pytest.approx(SPREAD**2 * ELEMENTS, rel=0.05)


def test_nothing_is_told_of_windows_that_show_no_noise():
    model, generator = Quadratic(), torch.Generator().manual_seed(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    silent, single = accrue.Accumulator(model), accrue.Accumulator(model, measure_noise=True)
    for _ in range(5):
        assert window(silent, model, optimizer, [2, 2], generator).noise_scale is None
        assert window(single, model, optimizer, [4], generator).gradient_variance is None


def test_measuring_changes_no_bit_of_the_gradient():
    gradients = []
    for measure in (False, True):
        model, generator = Quadratic(), torch.Generator().manual_seed(3)
        acc = accrue.Accumulator(model, measure_noise=measure)
        for _ in range(3):
            window(acc, model, torch.optim.SGD(model.parameters(), lr=0.1), [2, 3], generator)
        gradients.append(model.p.detach().clone())
    assert torch.equal(*gradients)


def test_a_controller_grows_the_batch_to_the_noise_and_says_why():
    model, generator = Quadratic(), torch.Generator().manual_seed(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    acc = accrue.Accumulator(model, batch=accrue.Samples(2), measure_noise=True)
    controller = accrue.BatchController("norm-test", batch=2, most=64, lr_rule="sqrt", beta2=0.99)
    reasons = []
    for _ in range(300):
        while not acc.full():
            acc.backward(accrue.Loss(model(torch.randn(1, ELEMENTS, generator=generator) * SPREAD), 1), accrue.Samples(1))
        ahead = controller.step(acc.step(optimizer))
        acc.set_batch(accrue.Samples(ahead.batch))
        reasons += [ahead.reason] if ahead.reason else []
    assert TRUTH / 1.5 <= controller.batch <= 2 * TRUTH
    assert "noise scale" in reasons[0]
    assert ahead.lr_factor == pytest.approx(math.sqrt(controller.batch / 2))
    assert ahead.beta2 == pytest.approx(0.99 ** (controller.batch / 2))


def test_a_controller_goes_on_from_its_state():
    report = accrue.StepReport.of(step=1, stepped=True, weight=4, loss=1.0, grad_norm=1.0, micro_batches=2, quarantined=0, world=1,
                                  seconds=1.0)
    controller = accrue.BatchController("critical", batch=8, most=64)
    assert controller.step(report).batch == 8
    other = accrue.BatchController("critical", batch=8, most=64)
    other.load_state_dict(controller.state_dict())
    assert other.state_dict() == controller.state_dict()
    with pytest.raises(accrue.UsageError, match="state_dict"):
        other.load_state_dict({"batch": 8})


def test_what_makes_no_sense_is_refused():
    model = Quadratic()
    with pytest.raises(accrue.UsageError, match="goes by measured noise"):
        accrue.BatchController("seesaw", batch=8, most=64)
    with pytest.raises(accrue.UsageError, match="between least and most"):
        accrue.BatchController("critical", batch=8, most=4)
    with pytest.raises(accrue.UsageError, match="lr_rule"):
        accrue.BatchController("critical", batch=8, most=64, lr_rule="cube")
    acc = accrue.Accumulator(model, batch=accrue.Samples(2))
    with pytest.raises(accrue.UsageError, match="unit"):
        acc.set_batch(accrue.Tokens(4))
    acc.backward(accrue.Loss(model(torch.zeros(1, ELEMENTS)), 1), accrue.Samples(1))
    with pytest.raises(accrue.UsageError, match="open window"):
        acc.set_batch(accrue.Samples(4))
