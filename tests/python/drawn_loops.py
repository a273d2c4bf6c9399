"""Training loops that are drawn at random from what people do: right ones, and ones with one planted fault.

drawn(seed, fault) builds a loop anew each time it is asked, to the bit: the twin of a loop that is watched runs without a watch, and all
that both leave is compared. scripts/sound_loops.py runs many of them, test_drawn_loops.py a few.
"""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.checkpoint import checkpoint

import accrue
from accrue.generators import Generators

FEATURES, OUT = 6, 3


class Net(nn.Module):
    """Some layers with state of their own: hidden, spectral, of a codebook, running. `part` is what loops call that leave forward() out."""

    def __init__(self, draw: random.Random, carries: str, draws_masks: bool, recomputes: str):
        super().__init__()
        width = draw.choice([5, 8, 12])
        first = nn.Linear(FEATURES, width)
        self.carries, self.recomputes = carries, recomputes
        self.first = nn.utils.spectral_norm(first) if carries == "spectral" else first
        self.mask = nn.Dropout(0.3) if draws_masks else nn.Identity()
        self.body = nn.Sequential(nn.Linear(width, width), draw.choice([nn.Tanh, nn.GELU, nn.ReLU, nn.SiLU])())
        self.norm = draw.choice([nn.Identity, lambda: nn.LayerNorm(width)])()
        self.head = nn.Linear(width, OUT)
        self.register_buffer("hidden", torch.zeros(width))
        self.register_buffer("codes", torch.randn(4, width))
        self.last = torch.zeros(width)  # no buffer: an attribute that is bound anew
        self.calls = 0

    def part(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.first(x))
        if self.carries == "hidden":
            y = y + 0.5 * self.hidden.to(y.dtype)
            self.hidden = y.detach().mean(0).to(self.hidden.dtype)
        elif self.carries == "hidden-in-place":
            y = y + 0.5 * self.hidden.clone().to(y.dtype)
            self.hidden.copy_(y.detach().mean(0))
        elif self.carries == "attribute":
            y, self.last = y + 0.5 * self.last.to(y.dtype), y.detach().mean(0)
        elif self.carries == "codebook":
            nearest = torch.cdist(y.detach().float(), self.codes.float()).argmin(1)
            y = y + 0.3 * self.codes[nearest].to(y.dtype)
            self.codes[nearest[0]] = 0.9 * self.codes[nearest[0]] + 0.1 * y.detach()[0].to(self.codes.dtype)
        elif self.carries == "temperature":
            self.calls += 1
            y = y / (1 + 0.2 * self.calls)
        return y

    def forward(self, x: torch.Tensor, noise_level: torch.Tensor | None = None) -> torch.Tensor:
        y = self.mask(self.part(x))
        if noise_level is not None:
            y = y * (1 + noise_level.to(y.dtype))
        if self.recomputes:
            y = checkpoint(self.body, y, use_reentrant=self.recomputes == "re-entrant")
        else:
            y = self.body(y)
        return self.head(self.norm(y))


class RelativeStep(torch.optim.Optimizer):
    """As Adafactor's: a learning rate that is None."""

    def __init__(self, params):
        super().__init__(params, {"lr": None})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for tensor in group["params"]:
                if tensor.grad is not None:
                    state = self.state[tensor]
                    state["square"] = 0.9 * state.get("square", torch.zeros_like(tensor)) + tensor.grad.square()
                    tensor.add_(tensor.grad / (state["square"].sqrt() + 1e-6), alpha=-1e-2)


class Wrapped:
    """An optimizer in somebody's own class."""

    def __init__(self, optimizer):
        self.inner, self.param_groups = optimizer, optimizer.param_groups

    def step(self):
        self.inner.step()

    def zero_grad(self):
        self.inner.zero_grad()


CARRIES = ["", "", "hidden", "hidden-in-place", "attribute", "spectral", "codebook", "temperature"]
OUTSIDE = ["", "", "teacher", "critic", "learned-weight", "annealed"]
DRAWS = ["", "", "noise", "times", "mixup", "numpy"]
CHANGES = ["", "", "clip", "clip-value", "own-clip", "adaptive", "noise", "clamp", "centre", "mask-rows"]
SCHEMES = ["by-total", "scaled-means", "divided-at-the-end", "kept-elsewhere", "running-mean"]
# Planted faults, each with the causes that name it. Of a loop with equal micro-batches a mean of means would be right: sizes differ.
FAULTS = {"sum-of-means": {"weighting", "normalization"}, "mean-of-means": {"weighting"}, "divided-twice": {"scaled-twice"},
          "zeroed-each": {"zeroed-mid-window"}, "last-only": {"last-micro-batch-only", "zeroed-mid-window", "weighting"},
          "stepped-each": {"stepped-mid-window"}, "stepped-by-hand": {"stepped-mid-window"}, "decayed-by-hand": {"decay-per-micro-batch"},
          "clipped-each": {"clip-per-micro-batch"}, "schedule-each": {"schedule-per-micro-batch"}, "carried-over": {"last-window"},
          "frozen-half-way": {"weighting"}, "clamped-by-hooks": {"clip-per-micro-batch"}, "never-stepped": {"last-window"},
          "one-left-out": {"weighting"}, "counted-twice": {"weighting"}, "scaled-one": {"weighting"},
          "divided-by-the-weight-again": {"normalization", "scaled-twice"}, "multiplied-behind-clipping": {"normalization"},
          "layer-dropped": {"zeroed-mid-window"}}
# What a loop does by itself to a gradient of which the guide says that it is not judged, by how sums are kept.
LISTED = {"divided-at-the-end": {"own-clip", "adaptive"}, "kept-elsewhere": set()}


@dataclass
class Loop:
    """A loop that can be run once, with a watch or without."""

    seed: int
    told: dict[str, Any]  # what was drawn
    model: nn.Module
    optimizer: Any
    loss_fn: Callable
    run: Callable[[Any], None]
    held: list[Any] = field(default_factory=list)  # what lies outside the model
    schedules: list[Any] = field(default_factory=list)
    scaler: Any = None

    @property
    def plain(self) -> torch.optim.Optimizer:
        return self.optimizer.inner if isinstance(self.optimizer, Wrapped) else self.optimizer


def drawn(seed: int, fault: str = "") -> Loop:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    random.seed(seed)
    told = {"carries": draw.choice(CARRIES), "outside": draw.choice(OUTSIDE), "draws": draw.choice(DRAWS), "changes": draw.choice(CHANGES),
            "scheme": draw.choice(SCHEMES), "masks": draw.random() < 0.3, "recomputes": draw.choice(["", "", "", "plain", "re-entrant"]),
            "autocast": draw.choice(["", "", "", "around", "part"]), "double": draw.random() < 0.15, "scaler": draw.random() < 0.15,
            "schedule": draw.choice(["", "lambda", "several", "chained", "by-position"]), "hook": draw.random() < 0.2,
            "optimizer": draw.choice(["sgd", "momentum", "adamw", "adagrad", "relative", "wrapped"]), "copies": draw.random() < 0.2,
            "evaluates": draw.random() < 0.2, "calls": draw.random() < 0.3, "fault": fault}
    if fault:  # a fault is one of how losses are divided, too, so the scheme is the plain one
        told |= {"scheme": "by-total", "hook": False}
    if fault in ("divided-by-the-weight-again", "multiplied-behind-clipping", "layer-dropped"):
        told |= {"changes": draw.choice(["", "clip"])}  # faults of what is made of a gradient, so nothing else is
    if fault == "divided-twice" and told["changes"] in ("own-clip", "adaptive"):
        told |= {"changes": "clip"}  # what is clipped to a norm by itself has no factor left that is wrong
    if fault == "schedule-each":
        told |= {"optimizer": "sgd"}  # which has a rate
    if told["double"] or told["optimizer"] == "relative":
        told |= {"scaler": False}
    if told["double"]:
        told["autocast"] = ""
    if told["outside"] or told["draws"] in ("noise", "times", "mixup", "numpy") or told["autocast"] == "part":
        told["calls"] = False  # the model is not called with all of the micro-batch then
    return _built(seed, draw, told)


def _built(seed: int, draw: random.Random, told: dict[str, Any]) -> Loop:
    net = Net(draw, told["carries"], told["masks"], told["recomputes"])
    teacher, critic = copy.deepcopy(net.head), nn.Linear(OUT, 1)
    log_scale = nn.Parameter(torch.tensor(0.1))
    annealed = {"temperature": 1.0}
    if told["double"]:
        for each in (net, teacher, critic):
            each.double()
    dtype = torch.float64 if told["double"] else torch.float32
    sizes = [draw.randint(1, 4) for _ in range(draw.randint(2, 5))]
    if len(set(sizes)) == 1:
        sizes[0] += 1
    if told["carries"] == "spectral":
        told["copies"] = False  # torch does not copy what spectral_norm() leaves on a module
    generator = torch.Generator().manual_seed(seed)
    micros = [{"x": torch.randn(n, FEATURES, generator=generator, dtype=dtype), "y": torch.randn(n, OUT, generator=generator, dtype=dtype)}
              for n in sizes]
    if told["calls"]:
        micros = [micro["x"] for micro in micros]
    if told["hook"]:
        kept = torch.ones_like(net.head.weight)
        kept[0] = 0
        net.head.weight.register_hook(lambda gradient: gradient * kept)
    parameters = [*net.parameters(), *([log_scale] if told["outside"] == "learned-weight" else [])]
    optimizer = {"sgd": lambda: torch.optim.SGD(parameters, lr=0.1), "momentum": lambda: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
                 "adamw": lambda: torch.optim.AdamW(parameters, lr=1e-2), "adagrad": lambda: torch.optim.Adagrad(parameters, lr=1e-2),
                 "relative": lambda: RelativeStep(parameters), "wrapped": lambda: Wrapped(torch.optim.SGD(parameters, lr=0.1))}[told["optimizer"]]()
    plain = optimizer.inner if isinstance(optimizer, Wrapped) else optimizer
    schedules = _schedules(told, plain) if told["optimizer"] != "relative" else []
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0) if told["scaler"] else None

    def forward(x: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        if told["autocast"] == "around":
            with torch.autocast("cpu", torch.bfloat16):
                return net(x, *more)
        if told["autocast"] == "part":
            with torch.autocast("cpu", torch.bfloat16):
                return net.head(net.norm(net.body(net.part(x))))
        return net(x, *more)

    def losses(run: Callable, micro: Any) -> torch.Tensor:
        """One number a sample."""
        if told["calls"]:
            return run(micro).float().square().sum(1)
        x, y = micro["x"], micro["y"]
        more: list[torch.Tensor] = []
        if told["draws"] == "noise":
            x = x + 0.3 * torch.randn_like(x)
        elif told["draws"] == "times":
            more = [torch.rand(len(x), 1, dtype=x.dtype)] if told["autocast"] != "part" else []
            x = x * (1 + torch.rand(len(x), 1, dtype=x.dtype))
        elif told["draws"] == "mixup":
            share = random.betavariate(0.4, 0.4)
            x, y = share * x + (1 - share) * x.flip(0), share * y + (1 - share) * y.flip(0)
        elif told["draws"] == "numpy":
            import numpy

            x = x * float(numpy.random.uniform(0.5, 1.5))
        out = run(x, *more).to(y.dtype)
        each = (out - y).square().sum(1)
        if told["outside"] == "teacher":
            with torch.no_grad():
                wanted = teacher(out.new_ones(len(out), teacher.in_features))
            each = each + (out - wanted).square().sum(1)
        elif told["outside"] == "critic":
            each = each - critic(out).squeeze(1)
        elif told["outside"] == "learned-weight":
            each = each * torch.exp(-log_scale.to(each.dtype)) + log_scale
        elif told["outside"] == "annealed":
            each = each / annealed["temperature"]
        return each

    def plainly(model: nn.Module) -> Callable:
        return (lambda x: model.head(model.norm(model.body(model.part(x))))) if told["autocast"] == "part" else model

    def loss_fn(model: nn.Module, micro: Any) -> accrue.Loss:
        each = losses(plainly(model), micro)
        return accrue.Loss(each.sum(), len(each))

    def run(watch: Any) -> None:
        _run(told, net, micros, sizes, optimizer, plain, schedules, scaler, lambda micro: losses(forward, micro), watch)
        with torch.no_grad():  # what people do behind the step, within the window
            for tensor in (*teacher.parameters(), *critic.parameters()):
                tensor.mul_(0.9).add_(0.05)
        annealed["temperature"] *= 0.7
        if told["evaluates"]:
            net.eval()

    return Loop(seed, told, net, optimizer, loss_fn, run, [teacher, critic, log_scale, annealed], schedules, scaler)


def _schedules(told: dict[str, Any], optimizer: torch.optim.Optimizer) -> list[Any]:
    make = torch.optim.lr_scheduler
    one = make.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    if told["schedule"] == "chained":
        return [make.ChainedScheduler([one, make.ExponentialLR(optimizer, 0.9)], optimizer=optimizer)]
    return [one] if told["schedule"] or told["fault"] == "schedule-each" else []


def _run(told, net, micros, sizes, optimizer, plain, schedules, scaler, losses, watch) -> None:
    fault, total, count = told["fault"], sum(sizes), len(sizes)
    scale = scaler.scale if scaler else lambda loss: loss
    optimizer.zero_grad()
    if fault == "carried-over":
        with torch.no_grad():
            for tensor in net.parameters():
                tensor.grad = 0.1 * tensor.detach().clone()
    elsewhere: dict[int, torch.Tensor] = {}
    handles, weight = [], 0
    if fault == "clamped-by-hooks":
        handles = [tensor.register_hook(lambda gradient: gradient.clamp(-1e-5, 1e-5)) for tensor in net.parameters()]
    for place, micro in enumerate(watch.micro_batches(micros) if watch and not told["calls"] else micros):
        if fault == "frozen-half-way" and place == count // 2:
            net.head.weight.requires_grad_(False)
        if told["copies"] and place == 1:
            copy.deepcopy(net)
        if told["scheme"] == "running-mean" and weight:
            for tensor in net.parameters():
                if tensor.grad is not None:
                    tensor.grad.mul_(weight / (weight + sizes[place]))
        weight += sizes[place]
        each = losses(micro)
        if fault == "one-left-out" and place == count - 1:
            each = each * 0
        loss = {"by-total": lambda: each.sum() / total, "scaled-means": lambda: each.mean() * (len(each) / total),
                "divided-at-the-end": lambda: each.sum(), "kept-elsewhere": lambda: each.sum() / total,
                "running-mean": lambda: each.sum() / weight}[told["scheme"]]()
        if fault == "sum-of-means":
            loss = each.mean()
        elif fault == "mean-of-means":
            loss = each.mean() / count
        elif fault == "divided-twice":
            loss = loss / count
        elif fault == "scaled-one" and place == 0:
            loss = loss * 1.5
        elif fault == "counted-twice" and place == 0:
            loss = loss * 2
        if fault == "last-only" and place < count - 1:
            continue
        scale(loss).backward()
        last = place == count - 1
        if told["scheme"] == "kept-elsewhere":
            for tensor in net.parameters():
                if tensor.grad is not None:
                    elsewhere[id(tensor)] = elsewhere.get(id(tensor), 0) + tensor.grad
                    tensor.grad = elsewhere[id(tensor)] if last else None
        if not last:
            _between(fault, net, plain, optimizer, schedules)
    for handle in handles:
        handle.remove()
    if told["scheme"] == "divided-at-the-end":
        for tensor in net.parameters():
            if tensor.grad is not None:
                tensor.grad.div_(total)
    if scaler:
        scaler.unscale_(plain)
    if fault == "divided-by-the-weight-again":
        _scale(net, 1 / total)
    _change(told["changes"], net)
    if fault == "multiplied-behind-clipping":
        clip_grad_norm_(net.parameters(), 0.05)
        _scale(net, count)
    elif fault == "layer-dropped":
        net.head.weight.grad = None
    if fault != "never-stepped":
        if scaler:
            scaler.step(plain)
            scaler.update()
        else:
            optimizer.step()
    for schedule in schedules:
        for _ in range(5 if told["schedule"] == "several" else 1):
            schedule.step()


@torch.no_grad()
def _scale(net: nn.Module, factor: float) -> None:
    for tensor in net.parameters():
        if tensor.grad is not None:
            tensor.grad.mul_(factor)


def _between(fault: str, net: nn.Module, plain: torch.optim.Optimizer, optimizer: Any, schedules: list[Any]) -> None:
    """What is done between micro-batches, and should not."""
    if fault == "zeroed-each":
        optimizer.zero_grad()
    elif fault == "stepped-each":
        plain.step()
    elif fault == "stepped-by-hand":
        for tensor in net.parameters():
            if tensor.grad is not None:
                tensor.data.add_(tensor.grad, alpha=-0.05)
    elif fault == "decayed-by-hand":
        for tensor in net.parameters():
            tensor.data.mul_(0.98)
    elif fault == "clipped-each":
        clip_grad_norm_(net.parameters(), 1e-3)
    elif fault == "schedule-each":
        for schedule in schedules:
            schedule.step()


@torch.no_grad()
def _change(kind: str, net: nn.Module) -> None:
    """What people make of a window's gradient before the step."""
    trained = [tensor for tensor in net.parameters() if tensor.grad is not None]
    if kind == "clip":
        clip_grad_norm_(trained, 0.05)
    elif kind == "clip-value":
        clip_grad_value_(trained, 0.02)
    elif kind == "own-clip":
        size = torch.stack([tensor.grad.norm() for tensor in trained]).norm()
        for tensor in trained:
            tensor.grad.mul_(min(1.0, 0.037 / float(size)))
    for tensor in trained:
        if kind == "adaptive":
            tensor.grad.mul_(min(1.0, 0.01 * float(tensor.norm() + 1e-3) / float(tensor.grad.norm() + 1e-12)))
        elif kind == "noise":
            tensor.grad.add_(0.01 * torch.randn_like(tensor.grad))
        elif kind == "clamp":
            tensor.grad.clamp_(-0.01, 0.01)
        elif kind == "centre" and tensor.dim() > 1:
            tensor.grad.sub_(tensor.grad.mean(1, keepdim=True))
        elif kind == "mask-rows":
            tensor.grad[0] = 0


def left_by(loop: Loop) -> list[tuple[str, Any]]:
    """All that a loop leaves, by name."""
    left: list[tuple[str, Any]] = []
    for name, tensor in [*loop.model.named_parameters(), *loop.model.named_buffers(), ("last", loop.model.last)]:
        left += [(name, tensor.detach()), (f"{name}.grad", tensor.grad), (f"{name} requires", tensor.requires_grad),
                 (f"{name} hooks", len(tensor._backward_hooks or ()))]
    left += [("calls", loop.model.calls), ("modes", [part.training for part in loop.model.modules()]),
             ("module hooks", [len(part._forward_pre_hooks) + len(part._forward_hooks) + len(part._backward_hooks) for part in loop.model.modules()])]
    for place, outside in enumerate(loop.held):
        left += [(f"outside {place}", value) for value in (outside.state_dict().values() if isinstance(outside, nn.Module) else [outside])]
    left += [("optimizer", loop.plain.state_dict()), ("step hooks", len(loop.plain._optimizer_step_pre_hooks))]
    left += [("schedule", [schedule.state_dict() for schedule in loop.schedules]), ("rates", [group["lr"] for group in loop.plain.param_groups])]
    left += [("scaler", loop.scaler.state_dict() if loop.scaler else None), ("grad mode", torch.is_grad_enabled()),
             ("clipping", torch.nn.utils.clip_grad._clip_grads_with_norm_.__module__), ("backward", torch.autograd.backward.__module__)]
    for name, state in Generators().states():
        left.append((name, [state[0], state[1].tolist(), *state[2:]] if name == "numpy's generator" else state))
    return left


def kept(loop: Loop) -> list[tuple[str, Any]]:
    """left_by(), as a copy."""
    return [(name, copy.deepcopy(value)) for name, value in left_by(loop)]


def same(a: Any, b: Any) -> bool:
    if torch.is_tensor(a) and torch.is_tensor(b):
        return a.dtype == b.dtype and a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return callable(a) and callable(b) or a == b


DRAWN = ("carries", "outside", "draws", "changes", "scheme", "masks", "recomputes", "autocast", "double", "scaler", "schedule", "hook", "optimizer",
         "copies", "evaluates", "calls")


def kinds_of(told: dict[str, Any]) -> list[tuple[str, str]]:
    """What a loop counts as: "wrong" and its fault; "listed" where the guide says that it is not judged; else "right" and each value drawn."""
    if told["fault"]:
        return [("wrong", told["fault"])]
    if told["changes"] in LISTED.get(told["scheme"], set()):
        return [("listed", f"{told['changes']} of sums {told['scheme']}")]
    return [("right", f"{name}={value or 'nothing'}" if isinstance(value, str) else f"{name}={'yes' if value else 'no'}")
            for name, value in told.items() if name in DRAWN]


@dataclass
class Outcome:
    told: dict[str, Any]
    verdict: str  # "equal", "not equal", "not conclusive", "not judged" or "raised"
    report: Any
    differs: list[str]  # from the twin that was not watched

    @property
    def named(self) -> str:
        """The verdict, where a difference is "named" with a planted cause and "another" without."""
        if self.verdict != "not equal":
            return self.verdict
        return "named" if FAULTS.get(self.told["fault"], set()) & set(self.report.causes) else "another"

    @property
    def is_false_alarm(self) -> bool:
        return not self.told["fault"] and self.verdict == "not equal"

    @property
    def is_missed(self) -> bool:
        return bool(self.told["fault"]) and self.verdict == "equal"


def _seed_all(seed: int) -> None:
    import numpy

    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def watched(seed: int, fault: str = "") -> Outcome:
    """One loop under a watch, beside its twin without."""
    twin = drawn(seed, fault)
    _seed_all(seed)
    twin.run(None)
    expected = kept(twin)
    loop = drawn(seed, fault)
    _seed_all(seed)
    try:
        with accrue.watch(loop.model, loop.optimizer, loop.loss_fn) as w:
            loop.run(w)
        report = w.report
        verdict = ("not judged" if not report.judged else "not equal" if not report.equal else "equal" if report.conclusive else
                   "not conclusive")
    except Exception as error:
        report, verdict = error, "raised"
    differs = [name for (name, value), (_, wanted) in zip(left_by(loop), expected) if not same(value, wanted)]
    return Outcome(loop.told, verdict, report, differs)
