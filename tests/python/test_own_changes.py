"""What loops do to `.grad` between the last backward pass and the step: what is meant passes, what is a mistake is named, and what is
neither is not judged."""

import pytest
import torch
from test_right_kinds import MICROS, OWN, is_right, loss_fn, network, scaled, window
from torch.nn.utils import clip_grad_norm_

import accrue
from accrue.own_changes import Background, change_of

COUNT, WEIGHT = len(MICROS), 9


def own_clip(most):
    def clip(net):
        size = float(torch.stack([parameter.grad.norm() for parameter in net.parameters()]).norm())
        scaled(min(1.0, most / (size + 1e-6)))(net)

    return clip


def drop(net):
    net[0].bias.grad = None


def clear(net):
    net[3].weight.grad.zero_()


def both(*changes):
    return lambda net: [change(net) for change in changes]


def torch_clip(net):
    clip_grad_norm_(net.parameters(), 0.1)


def negate(net):
    scaled(-1)(net)


WRONG = {
    "divided by the weight again": (scaled(1 / WEIGHT), "normalization"),
    "divided by the number of micro-batches again": (scaled(1 / COUNT), "scaled-twice"),
    "multiplied by a constant": (scaled(2.0), "normalization"),
    "halved": (scaled(0.5), "normalization"),
    "negated": (negate, "normalization"),
    "divided by the weight, then clipped by torch": (
        both(scaled(1 / WEIGHT), lambda net: clip_grad_norm_(net.parameters(), 0.01)), "normalization"),
    "multiplied by the weight behind torch's clipping": (both(torch_clip, scaled(WEIGHT)), "normalization"),
    "divided by the weight behind torch's clipping": (both(torch_clip, scaled(1 / WEIGHT)), "normalization"),
    "negated behind torch's clipping": (both(torch_clip, negate), "normalization"),
    "a layer's gradient set to None": (drop, "zeroed-mid-window"),
    "a layer's gradient set to zero": (clear, "zeroed-mid-window"),
    "a layer's gradient set to None behind torch's clipping": (both(torch_clip, drop), "zeroed-mid-window"),
    "a layer's gradient divided again": (lambda net: net[0].weight.grad.div_(WEIGHT), "normalization"),
    "values clipped by torch, then divided": (both(lambda net: torch.nn.utils.clip_grad_value_(net.parameters(), 0.02), scaled(1 / WEIGHT)), "normalization"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_mistakes_behind_the_last_backward_are_named(kind):
    change, cause = WRONG[kind]
    report = window(before=change)
    assert not report.equal and report.judged and report.cause == cause, f"\n{report}"


def shuffle(net):
    for parameter in net.parameters():
        parameter.grad.copy_(parameter.grad.flatten().flip(0).view_as(parameter.grad))


VAGUE = {
    "a factor of no threshold": scaled(0.43127),
    "two clippings, one behind the other": both(torch_clip, own_clip(0.02)),
    "a layer's gradient times a factor": lambda net: net[0].weight.grad.mul_(0.43127),
    "elements in another order": shuffle,
    "elements in another order behind torch's clipping": both(torch_clip, shuffle),
    "noise that hides all": lambda net: [p.grad.add_(10 * torch.randn_like(p)) for p in net.parameters()],
    "another window's gradient added": lambda net: [p.grad.add_(g) for p, g in zip(net.parameters(), torch.autograd.grad(
        loss_fn(net, MICROS[1]).sum, list(net.parameters())))],
}


@pytest.mark.parametrize("kind", VAGUE)
def test_changes_that_are_not_recognised_are_not_judged(kind):
    report = window(before=VAGUE[kind])
    assert not report.judged and not report.conclusive, f"\n{report}"
    assert "between the last backward pass and the step" in report.conclusion and report.advice


def by_outputs(net):
    for parameter in net.parameters():
        rows = parameter.grad.view(parameter.grad.shape[0], -1) if parameter.dim() > 1 else parameter.grad.view(1, -1)
        weights = parameter.detach().view_as(rows)
        most = 0.01 * weights.norm(dim=1, keepdim=True).clamp_min(1e-3)
        rows.mul_((most / rows.norm(dim=1, keepdim=True).clamp_min(1e-6)).clamp_max(1.0))


MEANT = OWN | {
    "own clipping with an epsilon": own_clip(0.02),
    "normalised": lambda net: scaled(1 / float(torch.stack([p.grad.norm() for p in net.parameters()]).norm()))(net),
    "each normalised": lambda net: [p.grad.div_(p.grad.norm()) for p in net.parameters()],
    "adaptive by outputs": by_outputs,
    "penalised": lambda net: [p.grad.add_(p.detach(), alpha=0.1) for p in net.parameters()],
    "centred": lambda net: net[0].weight.grad.sub_(net[0].weight.grad.mean(1, keepdim=True)),
    "signs": lambda net: [p.grad.sign_() for p in net.parameters()],
    "clamped behind torch's clipping": both(torch_clip, OWN["clamped"]),
    "noise behind torch's clipping": both(lambda net: clip_grad_norm_(net.parameters(), 1.0), OWN["noise"]),
}


@pytest.mark.parametrize("kind", MEANT)
def test_transformations_that_people_mean_pass(kind):
    report = window(before=MEANT[kind])
    assert is_right(report), f"\n{report}"
    wrong = window(lambda micro: loss_fn(net, micro).sum / len(micro[0]) / 3, before=MEANT[kind], net=(net := network()))
    assert not is_right(wrong), f"a mean of means\n{wrong}"


@pytest.mark.parametrize("first, change, expected", [(1, lambda net: None, "zeroed-mid-window"), (0, OWN["clamped"], "none")])
def test_a_change_of_sums_that_are_kept_elsewhere(first, change, expected):
    """`first`: the parameter from which on gradients are brought back."""
    net, kept = network(), {}
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with accrue.watch(net, optimizer, loss_fn) as w:
        for micro in w.micro_batches(MICROS):
            (loss_fn(net, micro).sum / WEIGHT).backward()
            for parameter in net.parameters():
                kept[parameter] = kept.get(parameter, 0) + parameter.grad
                parameter.grad = None
        for parameter in list(net.parameters())[first:]:
            parameter.grad = kept[parameter]
        change(net)
        optimizer.step()
    assert w.report.cause == expected and w.report.judged, f"\n{w.report}"


def test_a_loss_scale_of_ones_own_is_taken_off():
    net = network()
    assert is_right(window(lambda micro: loss_fn(net, micro).sum / WEIGHT * 1024, before=scaled(1 / 1024), net=net))


@pytest.mark.parametrize("clips", [False, True])
def test_a_scaler_takes_its_scale_off(clips):
    net = network()
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    meant = OWN["clamped"] if clips else own_clip(0.02)
    for change, expected in ((lambda net: None, "none"), (meant, "none"), (scaled(1 / WEIGHT), "normalization"), (drop, "zeroed-mid-window")):
        with accrue.watch(net, optimizer, loss_fn) as w:
            optimizer.zero_grad()
            for micro in w.micro_batches(MICROS):
                scaler.scale(loss_fn(net, micro).sum / WEIGHT).backward()
            scaler.unscale_(optimizer)
            if clips:
                torch_clip(net)
            change(net)
            scaler.step(optimizer)
            scaler.update()
        assert w.report.cause == expected and w.report.judged, f"\n{w.report}"


def change(before, after, dtype=torch.float32):
    parameters = [("a", torch.ones(6, 5, dtype=dtype)), ("b", torch.ones(7, dtype=dtype))]
    return change_of(before, after, Background(parameters, {0.25: "1 / 4"}, lambda: []))


def test_only_elements_between_its_bounds_show_what_a_clamp_was_made_of():
    """A zero is the same of a sum and of its mean."""
    for rest, shows in ((0.0, False), (1e-9, False), (0.004, True)):
        before = [torch.full((6, 5), 7.0)]
        before[0][0, 0], before[0][1, 1] = rest, -5
        made = change(before, [before[0].clamp(-0.01, 0.01)])
        assert made.kind == "own" and made.shows_size == shows, rest


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rounding_of_each_precision_is_no_change(dtype):
    before = [torch.randn(6, 5, dtype=dtype), torch.randn(7, dtype=dtype)]
    epsilon = torch.finfo(dtype).eps
    assert change(before, [each * (1 + epsilon) for each in before], dtype).kind == "none"
    more = {torch.float64: 1e-6, torch.float32: 1e-4, torch.bfloat16: 0.1}[dtype]
    assert change(before, [each * (1 + more) for each in before], dtype).kind != "none"
    assert change(before, [each * 0.25 for each in before], dtype).kind == "scaled"
    assert change(before, [each * 0.2337 for each in before], dtype).kind != "scaled", "which is 1 / 4 in no precision"
    assert change(before, [before[0], torch.zeros_like(before[1])], dtype).kind == "dropped"
    assert change(before, [each * 0 for each in before], dtype).text == "cleared"
    unused = [before[0], torch.zeros_like(before[1])]
    assert change(unused, unused, dtype).kind == "none"


def test_noise_has_one_size_no_structure_and_no_direction():
    before = [torch.randn(6, 5), torch.randn(7)]
    noise = [0.01 * torch.randn_like(each) for each in before]

    def disturbed(by):
        return change(before, [a + b for a, b in zip(before, by)]).kind

    assert disturbed(noise) == "own"
    assert disturbed([30 * noise[0], noise[1]]) == "unknown", "of two sizes"
    assert disturbed([0.01 * torch.outer(torch.randn(6), torch.randn(5)), noise[1]]) == "unknown", "of one direction"
    assert disturbed([a - 0.1 * b for a, b in zip(noise, before)]) == "unknown", "beside a factor"
    assert disturbed([100 * each for each in noise]) == "unknown", "louder than the gradient"
