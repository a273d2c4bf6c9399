"""Records a window of a training loop by hooks: micro-batches, sums, parameters, clipping, steps, learning rates.

The recorder does not disturb the loop: it assumes no attribute and no dtype, and its own failures are reported after the window, never raised
inside the loop.
"""

import contextlib
import functools
import gc
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules
from torch.nn.utils import clip_grad
from torch.optim.lr_scheduler import LRScheduler

from accrue.batches import copied
from accrue.copies import Account, Copies
from accrue.errors import NotJudged, UsageError
from accrue.generators import Generators
from accrue.models import unwrapped
from accrue.replaced import Replaced
from accrue.state import State
from accrue.tensors import norm

# A sum that lost this part of itself between two backward passes was scaled down; a smaller change is rounding.
SHRUNK = 1e-4


@dataclass(frozen=True)
class Call:
    """The arguments of a call of a model, if they are not one tensor or all named."""

    args: tuple
    kwargs: dict


def micro_batch_of(model: nn.Module, args: tuple, kwargs: dict, take: Callable[[torch.device, int, str], None] | None = None) -> Any:
    """Returns a call as a micro-batch: the model's only argument, a dict of its named arguments, or a Call."""
    if len(args) == 1 and not kwargs:
        return copied(args[0], take)
    parameters = inspect.signature(unwrapped(model).forward).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(names):
        return Call(copied(args, take), copied(kwargs, take))
    return copied(dict(zip(names, args)) | kwargs, take)


class Rounding:
    """The current state of autocast."""

    def __init__(self) -> None:
        self._of = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]

    def restored(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        for kind, enabled, dtype in self._of:
            if enabled or torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))
        return stack


@dataclass
class Moment:
    """The state when the model, or a part of it, was called."""

    inputs: Any  # of the whole model only
    generators: Generators
    rounding: Rounding
    modes: list[tuple[nn.Module, bool]]


@dataclass
class MicroBatch:
    """One micro-batch of the window, and everything that its loss may read, as it was when the micro-batch began."""

    batch: Any
    generators: Generators | None
    state: State | None  # both None when the window has been judged
    first: Moment | None = None  # when the model or the first part of it was called
    calls: list[Moment] = field(default_factory=list)  # of the whole model

    def release(self) -> None:
        """Frees everything but the batch."""
        self.generators = self.state = self.first = None
        self.calls = []


class Clipping:
    """A gradient before torch's functions clipped it, and after."""

    def __init__(self, gradient: torch.Tensor, unscaling: float):
        """`unscaling`: the factor that a GradScaler had multiplied it by."""
        self.before = gradient.detach().clone()
        self.behind = self.before
        self.unscaling = unscaling

    def note(self, gradient: torch.Tensor | None) -> bool:
        """Records the gradient after clipping; returns whether clipping changed it."""
        if gradient is None or torch.equal(self.before, gradient):
            return False
        self.behind = gradient.detach().clone()
        return True

    def scale(self, factor: float) -> None:
        self.before, self.behind = self.before * factor, self.behind * factor


@dataclass
class Seen:
    """The events of the window. Backward passes are counted from 0."""

    micro_batches: list[MicroBatch] = field(default_factory=list)
    backwards: int = 0
    steps: list[int] = field(default_factory=list)  # how many backward passes came before each
    skipped: bool = False  # whether a GradScaler skipped the step, because gradients were not finite
    clips: list[int] = field(default_factory=list)  # how many backward passes came before each
    rates: dict[int, tuple] = field(default_factory=dict)  # learning rates when each backward began
    positions: dict[int, tuple] = field(default_factory=dict)  # positions of the schedules, likewise
    changed: tuple[int, str, str] | None = None  # the first backward that found a parameter changed, its name, how
    zeroed: tuple[int, str] | None = None  # the first backward that found a sum gone, its parameter
    shrunk: tuple[int, str] | None = None  # the first backward that found a sum scaled down, its parameter
    frozen: tuple[int, str] | None = None  # the first micro-batch that found a trained parameter frozen, its name
    thawed: tuple[int, str] | None = None  # the first micro-batch that found a frozen parameter of the optimizer trained, its name
    hooks: dict[int, list[Callable]] = field(default_factory=dict)  # on trained parameters when their first gradient came, by place
    carried_over: str = ""  # a parameter whose .grad was not empty when its first backward began
    sparse: str = ""  # a parameter whose gradient is sparse
    # Without a GradScaler's scale:
    gradients: list[torch.Tensor | None] | None = None  # when the step began; without a step, what was left
    clippings: dict[int, list[Clipping]] = field(default_factory=dict)  # by torch's functions after the last backward, by place
    sums: list[torch.Tensor | None] | None = None  # .grad after the last backward
    arrived: list[torch.Tensor | None] | None = None  # the sum of what all backward passes gave, wherever the loop kept it
    failure: str = ""  # why something could not be recorded
    instead: str = ""  # what to do to have it recorded

    def unclipped(self) -> list[torch.Tensor | None]:
        """Returns the gradients as they would be without torch's clipping. Factors applied after the clipping are kept."""
        left = list(self.gradients or [])
        for place, clippings in self.clippings.items():
            gradient, behind = left[place], clippings[-1].behind
            if gradient is not None:
                size = norm(behind) ** 2
                factor = float((gradient.double() * behind.double()).sum()) / size if size > 0 else 1.0
                left[place] = clippings[0].before * factor
        return left


def _guarded(method: Callable) -> Callable:
    """Decorates a method of the recorder so that its failures do not reach the loop."""

    @functools.wraps(method)
    def guarded(self, *args, **kwargs):
        if not self.is_recording or _pauses or self.seen.failure:
            return None
        try:
            return method(self, *args, **kwargs)
        except NotJudged as error:
            self.seen.failure, self.seen.instead = error.reason, error.instead
        except Exception as error:
            self.seen.failure = f"{type(error).__name__}: {error}"
        self.release()
        return None

    return guarded


_pauses: list[None] = []  # one for each check that runs


@contextlib.contextmanager
def unrecorded() -> Iterator[None]:
    """Marks what runs within as a check, which a surrounding watch does not record."""
    _pauses.append(None)
    try:
        yield
    finally:
        _pauses.pop()


def _nothing(*_) -> None:
    """Replaces the recorder's hook in copies of a watched model."""


class Hook:
    """The recorder's hook on a model. Copies of the model, and what torch.save() writes of it, have none."""

    def __init__(self, call: Callable):
        self._call = call

    def __call__(self, *args: Any) -> None:
        if not torch.compiler.is_compiling():  # a compiled graph must not contain the hook
            self._call(*args)

    def __deepcopy__(self, memo: dict) -> Callable:
        return _nothing

    def __reduce__(self) -> tuple:
        return functools.partial, (_nothing,)


class Recorder:
    """Records a model, its optimizer and torch's clipping by hooks, between start() and stop()."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, named: list[tuple[str, torch.Tensor]], roots: tuple, copies: Copies):
        """Args:
            named: the trained parameters of the optimizer.
            roots: the objects from which everything that the loss reads is reached.
            copies: the limits for copies of all that.
        """
        self.seen = Seen()
        self.account = Account(copies)
        self._model = model
        self._optimizer = optimizer
        self.named = named
        self._roots = roots
        self.trained = [tensor for _, tensor in self.named]
        self.before: list[torch.Tensor] = []  # their values when the window began
        self._frozen: list[tuple[str, torch.Tensor]] = []  # parameters of the optimizer that are not trained as the window begins
        self.is_recording = False
        self._is_used = False
        self._open = contextlib.ExitStack()
        self._nodes: list[Any] = []  # torch frees a parameter's node, with its hooks, unless it is referenced
        self.is_told = False  # whether micro-batches are announced by tell(), and not by the model's calls
        self._awaits_call = False  # whether the last announced micro-batch has not run yet
        self._awaits_part = False  # whether no part of the model has been called for it yet
        self._arrivals = [0] * len(self.trained)
        self._arrived: list[torch.Tensor | None] = [None] * len(self.trained)
        self._sums: list[float | None] = [None] * len(self.trained)
        self._clipped: dict[int, list[Clipping]] = {}  # by place, since the last backward
        self._clips = 0  # how many of torch's clipping functions are running; one may call another
        self._backward: tuple[str, int] = ("", -1)  # the running backward pass
        self._depth = 0  # of calls of torch.autograd.backward, which a re-entrant checkpoint nests
        self._calls_of_backward = 0
        self._unscaling = 1.0  # what a GradScaler multiplied gradients by since the last backward

    def start(self) -> None:
        if self._is_used:
            raise UsageError("watch", "a Watch that is entered once", "one that was entered before", "accrue.watch(...) for each window")
        self._is_used = True
        self.before = [tensor.detach().clone() for tensor in self.trained]
        held = {id(tensor) for group in self._optimizer.param_groups for tensor in group["params"]}
        self._frozen = [(name, tensor) for name, tensor in unwrapped(self._model).named_parameters()
                        if id(tensor) in held and not tensor.requires_grad]
        self._schedules = _schedules_of(self._optimizer)
        try:
            self._install()
        except BaseException:
            self._open.close()
            raise
        self.is_recording = True

    def _install(self) -> None:
        self._hold(self._model.register_forward_pre_hook(Hook(self._on_forward), with_kwargs=True))
        self._parts = {id(part) for part in self._model.modules()}
        self._hold(modules.register_module_forward_pre_hook(Hook(self._on_part)))
        for place, tensor in enumerate(self.trained):
            # Not hooks on the tensor: torch.autograd.grad() runs them, too, and they would conflict with an Accumulator's.
            node = torch.autograd.graph.get_gradient_edge(tensor).node
            self._nodes.append(node)
            self._hold(node.register_prehook(functools.partial(self._on_gradient, place)))
            self._hold(node.register_hook(functools.partial(self._on_sum, place)))
        self._hold(self._optimizer.register_step_pre_hook(self._on_step))
        self._watch_backward()
        self._watch_clipping()
        self._watch_scaler()

    def _hold(self, handle: Any) -> None:
        self._open.callback(handle.remove)

    def stop(self) -> None:
        if self.is_recording and self.seen.gradients is None:
            self._note_gradients()
        self.is_recording = False
        self._open.close()

    def release(self) -> None:
        """Frees all copies except the micro-batches."""
        for micro in self.seen.micro_batches:
            micro.release()
        self.before, self._clipped, self._nodes, self._schedules = [], {}, [], []
        self._arrived = [None] * len(self.trained)
        self.seen.gradients = self.seen.sums = self.seen.arrived = None

    def whole(self, gradients: list[torch.Tensor | None]) -> list[torch.Tensor]:
        """Returns the gradients with zeros in place of missing ones."""
        return [torch.zeros_like(tensor) if gradient is None else gradient for tensor, gradient in zip(self.trained, gradients)]

    @_guarded
    def _note_gradients(self) -> None:
        self._keep(1.0)

    @_guarded
    def tell(self, batch: Any) -> None:
        """Announces the next micro-batch, whatever the model is called with."""
        self.is_told = self._awaits_call = True
        self._begin(copied(batch, self.account.take))

    def _begin(self, batch: Any) -> None:
        self._awaits_part = True
        place = len(self.seen.micro_batches)
        earlier = self.seen.micro_batches[-1].state if place else None
        state = State(self._roots, gradients=False, spared=self.trained, earlier=earlier, account=self.account)
        self.seen.micro_batches.append(MicroBatch(batch, Generators(), state))
        for name, tensor in self.named:
            if not tensor.requires_grad and self.seen.frozen is None:
                self.seen.frozen = (place, name)
        for name, tensor in self._frozen:
            if tensor.requires_grad and self.seen.thawed is None:
                self.seen.thawed = (place, name)

    def _now(self, inputs: Any) -> Moment:
        return Moment(inputs, Generators(), Rounding(), [(part, part.training) for part in self._model.modules()])

    @_guarded
    def _on_forward(self, model: nn.Module, args: tuple, kwargs: dict) -> None:
        if not torch.is_grad_enabled() or self._depth > 0:
            return
        if not self.is_told:
            self._begin(micro_batch_of(model, args, kwargs, self.account.take))
        elif not self.seen.micro_batches:
            return
        micro = self.seen.micro_batches[-1]
        moment = self._now(micro_batch_of(model, args, kwargs, self.account.take) if self.is_told else micro.batch)
        micro.calls.append(moment)
        if micro.first is None:
            micro.first = moment
        self._awaits_call = self._awaits_part = False

    @_guarded
    def _on_part(self, part: nn.Module, *_) -> None:
        """Records a call of a part of the model: a loop may call a part, as Lightning's training_step does."""
        if id(part) not in self._parts or part is self._model or not self._awaits_part or not self.is_told or not torch.is_grad_enabled():
            return
        self._awaits_part = False
        self.seen.micro_batches[-1].first = self._now(None)

    @_guarded
    def _on_gradient(self, place: int, gradients: tuple) -> None:
        gradient = gradients[0]
        if gradient is None:
            return
        self._begin_backward()
        if gradient.layout is not torch.strided:
            self.seen.sparse = self.named[place][0]
        else:
            self._arrived[place] = gradient.detach().clone() if self._arrived[place] is None else self._arrived[place] + gradient.detach()
        if hooks := self.trained[place]._backward_hooks:
            self.seen.hooks.setdefault(place, list(hooks.values()))
        backward = self.seen.backwards - 1
        is_first = self._arrivals[place] == 0
        self._arrivals[place] += 1
        grad = self.trained[place].grad
        if is_first and not self.seen.carried_over and grad is not None and norm(grad) > 0:
            self.seen.carried_over = self.named[place][0]
        self._look_at_parameter(place, backward)
        self._look_at_sum(place, backward)

    def _begin_backward(self) -> None:
        """Counts a backward pass when it reaches the first trained parameter. Other backward passes do not belong to the window."""
        running = ("call", self._calls_of_backward) if self._depth else ("graph", torch._C._current_graph_task_id())
        if running == self._backward:
            return
        self._backward = running
        self.seen.rates[self.seen.backwards] = self._rates()
        self.seen.positions[self.seen.backwards] = tuple(_position(schedule) for schedule in self._schedules)
        self.seen.backwards += 1
        self._clipped = {}
        self._unscaling = 1.0
        self.seen.sums = None

    def _look_at_parameter(self, place: int, backward: int) -> None:
        """Detects a changed parameter by its values, because a write through .data leaves no other trace.

        A parameter of one element cannot distinguish decay from a step.
        """
        known = self.seen.changed
        if known and (known[0] != backward or known[2] != "unclear"):
            return
        how = _change(self.before[place], self.trained[place].detach())
        if how and not (known and how == "unclear"):
            self.seen.changed = (backward, self.named[place][0], how)

    def _look_at_sum(self, place: int, backward: int) -> None:
        known = self._sums[place]
        if not known:
            return
        grad, name = self.trained[place].grad, self.named[place][0]
        left = 0.0 if grad is None else norm(grad)
        if left == 0 and self.seen.zeroed is None:
            self.seen.zeroed = (backward, name)
        elif 0 < left < known * (1 - SHRUNK) and self.seen.shrunk is None:
            self.seen.shrunk = (backward, name)

    @_guarded
    def _on_sum(self, place: int, *_) -> None:
        grad = self.trained[place].grad
        self._sums[place] = None if grad is None else norm(grad)

    def _on_step(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> tuple | None:
        """Records a step. A closure contains the window's last backward (Lightning's closures do), so gradients are taken after it."""
        by_name = callable(kwargs.get("closure"))
        if not by_name and not (len(args) > 1 and callable(args[1])):
            return self._note_step(optimizer)
        closure = kwargs["closure"] if by_name else args[1]

        def noted() -> Any:
            loss = closure()
            self._note_step(optimizer)
            return loss

        return (args, kwargs | {"closure": noted}) if by_name else ((args[0], noted, *args[2:]), kwargs)

    @_guarded
    def _note_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.seen.steps.append(self.seen.backwards)
        if len(self.seen.steps) > 1:
            return
        told = getattr(optimizer, "accrue_clipping", 1.0)
        scaled = getattr(optimizer, "grad_scale", None)  # set by a GradScaler; a fused optimizer divides by this scale itself
        scaling = float(scaled) if scaled is not None else 1.0
        self._keep(scaling, told)

    def _keep(self, scaling: float, clipping: float = 1.0) -> None:
        """Records .grad and what led to it. The optimizer's step itself divides by `scaling` and multiplies by `clipping`."""
        self.seen.gradients = self._gradients(1 / (clipping * scaling))
        factor = self._unscaling / scaling
        self.seen.arrived = [None if tensor is None else tensor * factor for tensor in self._arrived]
        if self.seen.sums is not None:
            self.seen.sums = [None if tensor is None else tensor * factor for tensor in self.seen.sums]
        self.seen.clippings = self._clipped
        for each in (each for clippings in self._clipped.values() for each in clippings):
            each.scale(factor / each.unscaling)

    def _gradients(self, factor: float) -> list[torch.Tensor | None]:
        for (name, _), tensor in zip(self.named, self.trained):
            if tensor.grad is not None and tensor.grad.layout is not torch.strided:
                self.seen.sparse = name
        if self.seen.sparse:
            return []
        return [None if tensor.grad is None else tensor.grad.detach() * factor for tensor in self.trained]

    def _rates(self) -> tuple:
        """Returns the learning rates. Adafactor's may be None, capturable ones are tensors, and an optimizer may have none at all."""
        rates = [group.get("lr") for group in self._optimizer.param_groups]
        return tuple(float(rate) if torch.is_tensor(rate) else rate for rate in rates)

    def _replace(self, owner: Any, name: str, make: Callable[[Callable], Callable]) -> None:
        """Replaces `owner.name` by what `make` returns, until stop()."""
        if hasattr(owner, name):
            self._open.callback(Replaced(owner, name, make).put_back)

    def _watch_backward(self) -> None:
        def watched(original: Callable) -> Callable:
            def backward(*args, **kwargs):
                if _pauses:
                    return original(*args, **kwargs)
                self._calls_of_backward += self._depth == 0
                self._depth += 1
                try:
                    return original(*args, **kwargs)
                finally:
                    self._depth -= 1
                    if self._depth == 0 and self._backward == ("call", self._calls_of_backward):
                        self._keep_sums()

            return backward

        self._replace(torch.autograd, "backward", watched)

    @_guarded
    def _keep_sums(self) -> None:
        if not self.seen.sparse and not self.seen.steps:
            self.seen.sums = [None if tensor.grad is None else tensor.grad.detach().clone() for tensor in self.trained]

    def _watch_clipping(self) -> None:
        """Watches the functions that torch's clipping functions call, because user code may have imported the clipping functions themselves."""

        def watched(original: Callable) -> Callable:
            def clip(*args, **kwargs):
                if self._clips:
                    return original(*args, **kwargs)
                before = self._before_clipping()
                self._clips += 1
                try:
                    answer = original(*args, **kwargs)
                finally:
                    self._clips -= 1
                self._note_clipping(before or {})
                return answer

            return clip

        for owner, name in ((clip_grad, "_clip_grads_with_norm_"), (clip_grad, "clip_grads_with_norm_"), (nn.utils, "clip_grads_with_norm_"),
                            (clip_grad, "clip_grad_value_"), (nn.utils, "clip_grad_value_")):
            self._replace(owner, name, watched)

    @_guarded
    def _before_clipping(self) -> dict[int, Clipping]:
        return {place: Clipping(tensor.grad, self._unscaling) for place, tensor in enumerate(self.trained)
                if tensor.grad is not None and tensor.grad.layout is torch.strided}

    @_guarded
    def _note_clipping(self, before: dict[int, Clipping]) -> None:
        changed = {place: clipping for place, clipping in before.items() if clipping.note(self.trained[place].grad)}
        if not changed:
            return
        self.seen.clips.append(self.seen.backwards)
        for place, clipping in changed.items():
            self._clipped.setdefault(place, []).append(clipping)

    def _watch_scaler(self) -> None:
        def unscaling(original: Callable) -> Callable:
            def unscale(scaler, optimizer, inverse, *args, **kwargs):
                self._note_unscaling(optimizer, inverse)
                return original(scaler, optimizer, inverse, *args, **kwargs)

            return unscale

        def stepping(original: Callable) -> Callable:
            def step(scaler, optimizer, *args, **kwargs):
                steps = len(self.seen.steps)
                answer = original(scaler, optimizer, *args, **kwargs)
                if self.is_recording and plain_optimizer(optimizer) is self._optimizer and len(self.seen.steps) == steps:
                    self.seen.skipped = True
                return answer

            return step

        self._replace(torch.amp.GradScaler, "_unscale_grads_", unscaling)
        self._replace(torch.amp.GradScaler, "step", stepping)

    @_guarded
    def _note_unscaling(self, optimizer: Any, inverse: Any) -> None:
        if plain_optimizer(optimizer) is self._optimizer:
            self._unscaling *= float(inverse)


def plain_optimizer(optimizer: Any) -> torch.optim.Optimizer | None:
    """Returns the torch optimizer inside Accelerate's, Lightning's or another wrapper; None if there is none."""
    for _ in range(4):
        if isinstance(optimizer, torch.optim.Optimizer) and hasattr(optimizer, "_optimizer_step_pre_hooks"):
            return optimizer
        held = getattr(optimizer, "__dict__", {}).values()
        inner = [value for value in held if isinstance(value, torch.optim.Optimizer) or hasattr(value, "param_groups")]
        if not inner:
            return None
        optimizer = inner[0]
    return None


def _schedules_of(optimizer: torch.optim.Optimizer) -> list[LRScheduler]:
    """Finds an optimizer's schedules: a schedule knows its optimizer, but not the other way round. Accelerate's schedules know the wrapped one."""
    return [found for found in gc.get_objects()
            if issubclass(type(found), LRScheduler) and plain_optimizer(getattr(found, "optimizer", None)) is optimizer]


def _position(schedule: LRScheduler) -> Any:
    """Returns how far a schedule is; None for one that only holds others (ChainedScheduler), which are found themselves."""
    return getattr(schedule, "last_epoch", None)


def _change(before: torch.Tensor, now: torch.Tensor) -> str:
    """Returns "" if nothing changed, "decayed" if all elements shrank alike, "unclear" if a single element did, and otherwise "moved"."""
    if before.shape != now.shape or before.dtype != now.dtype:
        return "moved"
    if torch.equal(before, now):
        return ""
    was, moved = before.double().flatten(), (now - before).double().flatten()
    share = float(torch.dot(moved, was) / torch.dot(was, was).clamp_min(1e-300))
    rest = float((moved - share * was).norm() / moved.norm())
    if not (-0.5 < share < 0 and rest < 1e-2):
        return "moved"
    return "decayed" if was.numel() > 1 else "unclear"
