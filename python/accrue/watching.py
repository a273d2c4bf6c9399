"""What a window of somebody's training loop does, recorded by hooks: micro-batches, sums, parameters, clipping, steps, rates."""

import contextlib
import functools
import gc
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.utils import clip_grad
from torch.optim.lr_scheduler import LRScheduler

from accrue.errors import UsageError
from accrue.models import unwrapped
from accrue.tensors import Kept, kept, norm


@dataclass(frozen=True)
class Call:
    """What a model was called with, where that is not one tensor or names alone."""

    args: tuple
    kwargs: dict


def _copied(value: Any) -> Any:
    """Loops may fill the same tensors anew."""
    if torch.is_tensor(value):
        return value.detach().clone()
    if isinstance(value, Mapping):
        return {name: _copied(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(item) for item in value)
    return value


def micro_batch_of(model: nn.Module, args: tuple, kwargs: dict) -> Any:
    """A call as a micro-batch: the one thing that the model was called with, or its arguments by name, or a Call."""
    if len(args) == 1 and not kwargs:
        return _copied(args[0])
    parameters = inspect.signature(unwrapped(model).forward).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    if len(args) > len(names):
        return Call(_copied(args), _copied(kwargs))
    return _copied(dict(zip(names, args)) | kwargs)


class Generators:
    """The state of torch's random generators: the CPU's, and CUDA's where it is in use."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)


class Rounding:
    """The state of autocasting where a forward pass began."""

    def __init__(self) -> None:
        self._of = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]

    def restored(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        for kind, enabled, dtype in self._of:
            if enabled or torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled))
        return stack


@dataclass
class MicroBatch:
    """One forward pass of the window."""

    batch: Any
    generators: Generators
    rounding: Rounding = field(default_factory=Rounding)


class Clipping:
    """A gradient as it was before somebody clipped it, and as that left it."""

    def __init__(self, gradient: torch.Tensor):
        self.before = gradient.detach().clone()
        self.norm_behind = 0.0

    def note(self, gradient: torch.Tensor) -> bool:
        """What clipping left; whether it changed anything."""
        self.norm_behind = norm(gradient)
        return not torch.equal(self.before, gradient)

    def unclipped(self, gradient: torch.Tensor) -> torch.Tensor:
        """What `gradient` would be had it not been clipped: scaled as what came after clipping scaled it, cleared where it was."""
        return self.before * (norm(gradient) / self.norm_behind) if self.norm_behind > 0 else self.before


@dataclass
class Seen:
    """What happened in the window; backwards are counted from 0."""

    micro_batches: list[MicroBatch] = field(default_factory=list)
    backwards: int = 0
    steps: list[int] = field(default_factory=list)  # how many backwards were before each
    clips: list[int] = field(default_factory=list)  # likewise
    rates: dict[int, tuple] = field(default_factory=dict)  # learning rates when each backward began
    scheduler_steps: int = 0
    changed: tuple[int, str, str] | None = None  # the first backward that found a parameter changed, its name, how
    zeroed: tuple[int, str] | None = None  # the first backward that found a sum gone, whose
    shrunk: tuple[int, str] | None = None  # the first backward that found a sum scaled down, whose
    carried_over: str = ""  # a parameter in whose .grad something was when its first backward began
    gradients: list[torch.Tensor | None] | None = None  # before clipping, where a step began; else what is left


class Recorder:
    """Hooks into a model, its optimizer and torch's clipping between start() and stop()."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, named: list[tuple[str, torch.Tensor]]):
        """`named`: parameters of the optimizer that are trained."""
        self.seen = Seen()
        self._model = model
        self._optimizer = optimizer
        self._named = named
        self.trained = [tensor for _, tensor in self._named]
        self._handles: list[Any] = []
        self._nodes: list[Any] = []  # torch forgets a parameter's node, with its hooks, unless somebody keeps it
        self._undo: list[Callable[[], None]] = []
        self.is_told = False  # whether micro-batches are told, so that the model's calls do not tell them
        self._awaits_call = False  # whether the micro-batch that was told last has not been run yet
        self._arrivals = [0] * len(self.trained)
        self._sums: list[tuple[float, int] | None] = [None] * len(self.trained)
        self._clipped: dict[int, Clipping] = {}  # by place, since the last backward
        self._graph_task = -1  # of the backward that runs
        self.kept: Kept = []  # all parameters and buffers, as the window began

    def start(self) -> None:
        if self._handles:
            raise UsageError("watch", "a Watch that is entered once", "one that was entered before", "accrue.watch(...) for each window")
        self.kept = kept(self._model)
        copies = {id(tensor): copy for tensor, copy in self.kept}
        self._before = [copies[id(tensor)] for tensor in self.trained]
        self._versions = [tensor._version for tensor in self.trained]
        self._schedulers = [(scheduler, scheduler.last_epoch) for scheduler in _schedulers_of(self._optimizer)]
        self._handles.append(self._model.register_forward_pre_hook(self._on_forward, with_kwargs=True))
        for place, tensor in enumerate(self.trained):
            self._handles.append(tensor.register_hook(functools.partial(self._on_gradient, place)))
            # Not a hook on the tensor, which would stand in the way of an Accumulator's.
            node = torch.autograd.graph.get_gradient_edge(tensor).node
            self._nodes.append(node)
            self._handles.append(node.register_hook(functools.partial(self._on_sum, place)))
        self._handles.append(self._optimizer.register_step_pre_hook(self._on_step))
        self._watch_clipping()

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        for undo in reversed(self._undo):
            undo()
        self.seen.scheduler_steps = max((scheduler.last_epoch - before for scheduler, before in self._schedulers), default=0)
        if self.seen.gradients is None:
            self.seen.gradients = self._gradients()

    def tell(self, batch: Any) -> None:
        """This micro-batch comes next, whatever the model is called with."""
        self.is_told = self._awaits_call = True
        self.seen.micro_batches.append(MicroBatch(_copied(batch), Generators()))

    def _on_forward(self, model: nn.Module, args: tuple, kwargs: dict) -> None:
        if not torch.is_grad_enabled():
            return
        if not self.is_told:
            self.seen.micro_batches.append(MicroBatch(micro_batch_of(model, args, kwargs), Generators()))
        elif self._awaits_call:
            self._awaits_call = False
            self.seen.micro_batches[-1].generators = Generators()
            self.seen.micro_batches[-1].rounding = Rounding()

    def _on_gradient(self, place: int, gradient: torch.Tensor) -> None:
        task = torch._C._current_graph_task_id()
        if task != self._graph_task:
            self._graph_task = task
            self.seen.rates[self.seen.backwards] = self._rates()
            self.seen.backwards += 1
            self._clipped = {}
        backward = self.seen.backwards - 1
        is_first = self._arrivals[place] == 0
        self._arrivals[place] += 1
        grad = self.trained[place].grad
        if is_first and not self.seen.carried_over and grad is not None and norm(grad) > 0:
            self.seen.carried_over = self._named[place][0]
        self._look_at_parameter(place, backward)
        self._look_at_sum(place, backward)

    def _look_at_parameter(self, place: int, backward: int) -> None:
        tensor = self.trained[place]
        if self.seen.changed is None and tensor._version != self._versions[place]:
            how = _change(self._before[place], tensor.detach())
            if how:
                self.seen.changed = (backward, self._named[place][0], how)

    def _look_at_sum(self, place: int, backward: int) -> None:
        known = self._sums[place]
        if known is None or known[0] == 0:
            return
        grad, name = self.trained[place].grad, self._named[place][0]
        if grad is not None and grad._version == known[1]:
            return
        left = 0.0 if grad is None else norm(grad)
        if left == 0 and self.seen.zeroed is None:
            self.seen.zeroed = (backward, name)
        elif 0 < left < known[0] * (1 - 1e-4) and self.seen.shrunk is None:
            self.seen.shrunk = (backward, name)

    def _on_sum(self, place: int, *_) -> None:
        grad = self.trained[place].grad
        self._sums[place] = None if grad is None else (norm(grad), grad._version)

    def _on_step(self, optimizer: torch.optim.Optimizer, args: tuple, kwargs: dict) -> tuple | None:
        """A closure has the window's last backward in it (Lightning's do): gradients are what it leaves."""
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if closure is None:
            return self._note_step(optimizer)

        def noted() -> Any:
            loss = closure()
            self._note_step(optimizer)
            return loss

        return (args[0], noted, *args[2:]), {name: value for name, value in kwargs.items() if name != "closure"}

    def _note_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.seen.steps.append(self.seen.backwards)
        if len(self.seen.steps) > 1:
            return
        told = getattr(optimizer, "accrue_clipping", 1.0)
        scaled = getattr(optimizer, "grad_scale", None)  # by a GradScaler, whose scale a fused optimizer takes off itself
        self.seen.gradients = self._gradients(1 / (told * (float(scaled) if scaled is not None else 1.0)))

    def _gradients(self, factor: float = 1.0) -> list[torch.Tensor | None]:
        left = [None if tensor.grad is None else tensor.grad.detach() * factor for tensor in self.trained]
        for place, clipping in self._clipped.items():
            if left[place] is not None:
                left[place] = clipping.unclipped(left[place])
        return left

    def _rates(self) -> tuple:
        return tuple(float(group["lr"]) for group in self._optimizer.param_groups)

    def _watch_clipping(self) -> None:
        """What people import is a name for torch's function, which asks its module for what scales gradients."""

        def watched(original: Callable) -> Callable:
            @functools.wraps(original)
            def clip(*args, **kwargs):
                before = {place: Clipping(tensor.grad) for place, tensor in enumerate(self.trained) if tensor.grad is not None}
                answer = original(*args, **kwargs)
                changed = {place: clipping for place, clipping in before.items() if clipping.note(self.trained[place].grad)}
                if changed:
                    self.seen.clips.append(self.seen.backwards)
                    self._clipped = changed | self._clipped  # the first of several is what there was
                    for place in changed:
                        self._clipped[place].norm_behind = changed[place].norm_behind
                return answer

            return clip

        places = ((clip_grad, "_clip_grads_with_norm_"), (clip_grad, "clip_grads_with_norm_"), (nn.utils, "clip_grads_with_norm_"),
                  (clip_grad, "clip_grad_value_"), (nn.utils, "clip_grad_value_"))
        for owner, name in places:
            original = getattr(owner, name, None)
            if original is None:
                continue
            setattr(owner, name, watched(original))
            self._undo.append(functools.partial(setattr, owner, name, original))


def _schedulers_of(optimizer: torch.optim.Optimizer) -> list[LRScheduler]:
    """A schedule knows its optimizer, and not the other way round."""
    return [found for found in gc.get_objects() if issubclass(type(found), LRScheduler) and getattr(found, "optimizer", None) is optimizer]


def _change(before: torch.Tensor, now: torch.Tensor) -> str:
    """"" where nothing changed, "decayed" where all of it shrank alike, else "moved"."""
    if torch.equal(before, now):
        return ""
    was, moved = before.double().flatten(), (now - before).double().flatten()
    share = float(torch.dot(moved, was) / torch.dot(was, was).clamp_min(1e-300))
    rest = float((moved - share * was).norm() / moved.norm())
    return "decayed" if -0.5 < share < 0 and rest < 1e-2 and was.numel() > 1 else "moved"
