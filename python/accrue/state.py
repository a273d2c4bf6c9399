"""The state that Python objects reach, kept as of a moment and put back: tensors, attributes, containers, generators.

A loss reads more than the model: an averaged teacher, the other network of a GAN, a temperature that is annealed, the hidden state of the
last micro-batch. Whoever runs a micro-batch again has to find all of it as it was, and whoever only looked has to leave all of it so.
"""

import collections
import contextlib
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import Dataset

from accrue.generators import state_of

# Packages whose functions and objects hold no state of a training loop, or none that can be put back.
OPAQUE = {"accrue", "asyncio", "builtins", "concurrent", "datasets", "functools", "inspect", "io", "logging", "multiprocessing", "numpy",
          "pathlib", "PIL", "pyarrow", "pytest", "_pytest", "queue", "re", "threading", "tokenizers", "tqdm", "types", "weakref"}
# Of longer containers the elements themselves are not looked into: they are data.
MOST_ELEMENTS = 10_000
# Larger tensors outside models and optimizers are data.
MOST_BYTES = 1 << 28

STATEFUL = (nn.Module, torch.optim.Optimizer, LRScheduler, torch.amp.GradScaler)


class _Tensor:
    """One tensor: its values, whether it requires a gradient, and which tensor its gradient is."""

    def __init__(self, tensor: torch.Tensor, earlier: "_Tensor | None", with_grad: bool):
        self.tensor = tensor
        detached = tensor.detach()
        is_same = earlier is not None and _equal(earlier.value, detached)
        self.value = earlier.value if is_same else detached.clone()
        self.requires_grad = tensor.requires_grad if tensor.is_leaf else None
        self.grad = tensor.grad if with_grad and tensor.is_leaf else None
        self.with_grad = with_grad and tensor.is_leaf

    def restore(self) -> None:
        tensor = self.tensor
        if not _equal(self.value, tensor.detach()):
            # Behind autograd's back: a graph of the user's that holds this tensor stays valid.
            if tensor.shape == self.value.shape and tensor.dtype == self.value.dtype and tensor.device == self.value.device:
                tensor.data.copy_(self.value)
            else:
                tensor.data = self.value.clone()
        if self.requires_grad is not None and tensor.requires_grad != self.requires_grad and tensor.is_leaf:
            tensor.requires_grad_(self.requires_grad)
        if self.with_grad and tensor.grad is not self.grad:
            tensor.grad = self.grad


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """To the bit, and nothing else: dtypes, devices and layouts that differ are different."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device or a.layout != b.layout:
        return False
    if a.layout is not torch.strided:
        return False
    return torch.equal(a, b)


class _Items:
    """What a container or an object's attributes held: the same objects, in the same order."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]):
        self._read, self._write = read, write
        self.kept = read()

    def restore(self) -> None:
        now = self._read()
        if len(now) != len(self.kept) or any(a is not b for a, b in zip(now, self.kept)):
            self._write(self.kept)


def _of_dict(value: dict) -> _Items:
    plain = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict

    def write(kept: list) -> None:
        """By the base class's methods: a Counter's update() adds, and others' refuse."""
        plain.clear(value)
        for name, item in zip(kept[::2], kept[1::2]):
            plain.__setitem__(value, name, item)

    return _Items(lambda: [part for item in list(dict.items(value)) for part in item], write)


def _of_list(value: list) -> _Items:
    return _Items(lambda: list(value), lambda kept: value.__setitem__(slice(None), kept))


def _of_deque(value: collections.deque) -> _Items:
    def write(kept: list) -> None:
        value.clear()
        value.extend(kept)

    return _Items(lambda: list(value), write)


class _Set:
    def __init__(self, value: set):
        self._value, self._kept = value, set(value)

    def restore(self) -> None:
        if self._value != self._kept:
            self._value.clear()
            self._value.update(self._kept)


class _Binding:
    """One name: a closure's variable or a global of a function."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]):
        self._read, self._write = read, write
        self._value = read()

    def restore(self) -> None:
        if self._read() is not self._value:
            self._write(self._value)


class _Generator:
    def __init__(self, state: Any, put_back: Callable[[Any], None]):
        self._state, self._put_back = state, put_back

    def restore(self) -> None:
        self._put_back(self._state)


class State:
    """What `roots` reach, as of now.

    everything   also what functions and plain containers hold, not only models, optimizers, schedules, scalers, tensors and generators:
                 a list that a user's function appends to is a result of it, and no state that a model has
    gradients    also `.grad`
    spared       tensors that are left alone
    earlier      an earlier state of them, whose copies are shared where nothing changed
    """

    def __init__(self, roots: Iterable[Any], *, everything: bool = True, gradients: bool = True, spared: Iterable[torch.Tensor] = (),
                 earlier: "State | None" = None):
        self._everything, self._gradients = everything, gradients
        self._spared = {id(tensor) for tensor in spared}
        self._earlier = earlier._tensors if earlier is not None else {}
        self._tensors: dict[int, _Tensor] = {}
        self._others: list[Any] = []
        self._alive: list[Any] = []  # what was seen stays, so that an id names one object
        self._seen: set[int] = set()
        self._open: collections.deque[tuple[Any, bool]] = collections.deque((root, everything) for root in roots)
        while self._open:
            value, owned = self._open.popleft()
            # Proxies of other packages raise anything when they are looked at; they are no state of a loop.
            with contextlib.suppress(Exception):
                self._look_at(value, owned)
        self._earlier = {}

    def restore(self) -> None:
        for kept in self._others:
            kept.restore()
        for tensor in self._tensors.values():
            tensor.restore()

    def _push(self, values: Iterable[Any], owned: bool) -> None:
        for value in values:
            if value is not None and not isinstance(value, (bool, int, float, str, bytes, type, types.ModuleType, torch.dtype, torch.device)):
                self._open.append((value, owned))

    def _look_at(self, value: Any, owned: bool) -> None:
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._alive.append(value)
        if isinstance(value, torch.Tensor):
            return self._keep_tensor(value, owned)
        if (generator := state_of(value)) is not None:
            return self._others.append(_Generator(*generator))
        if isinstance(value, (dict, list, tuple, set, frozenset, collections.deque)):
            return self._keep_container(value, owned)
        if isinstance(value, types.CellType):
            return self._keep_cell(value, owned)
        if isinstance(value, types.MethodType):
            return self._push((value.__self__, value.__func__), owned)
        if isinstance(value, functools.partial):
            return self._push((value.func, value.args, value.keywords), owned)
        if isinstance(value, types.FunctionType):
            return self._keep_function(value, owned)
        self._keep_object(value, owned)

    def _keep_tensor(self, tensor: torch.Tensor, owned: bool) -> None:
        is_data = not owned and not tensor.requires_grad and tensor.numel() * tensor.element_size() > MOST_BYTES
        if id(tensor) in self._spared or is_data or tensor.is_meta or type(tensor).__name__.startswith(("Fake", "Functional", "Deferred")):
            return
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
            return
        self._tensors[id(tensor)] = _Tensor(tensor, self._earlier.get(id(tensor)), self._gradients)
        if self._gradients and tensor.is_leaf and tensor.grad is not None:
            self._open.append((tensor.grad, owned))

    def _keep_container(self, value: Any, owned: bool) -> None:
        if owned and isinstance(value, dict):
            self._others.append(_of_dict(value))
        elif owned and isinstance(value, list):
            self._others.append(_of_list(value))
        elif owned and isinstance(value, collections.deque):
            self._others.append(_of_deque(value))
        elif owned and isinstance(value, set):
            self._others.append(_Set(value))
        if len(value) <= MOST_ELEMENTS:
            self._push(value.values() if isinstance(value, dict) else value, owned)
            if isinstance(value, dict):
                self._push((key for key in value if isinstance(key, torch.Tensor)), owned)

    def _keep_cell(self, cell: types.CellType, owned: bool) -> None:
        try:
            content = cell.cell_contents
        except ValueError:  # of a name that has no value yet
            return
        if owned:
            self._others.append(_Binding(lambda: cell.cell_contents, lambda kept: setattr(cell, "cell_contents", kept)))
        self._push((content,), owned)

    def _keep_function(self, function: types.FunctionType, owned: bool) -> None:
        if _package(function.__module__) in OPAQUE | {"torch", "transformers", "trl", "lightning", "pytorch_lightning", "accelerate"}:
            # Their globals are no state, but a decorator's closure has the user's function.
            return self._push(function.__closure__ or (), False)
        self._push(function.__closure__ or (), owned)
        self._push(function.__defaults__ or (), owned)
        self._push((function.__kwdefaults__ or {}).values(), owned)
        space = function.__globals__
        for name in _names_in(function.__code__):
            if name in space:
                value = space[name]
                if owned and not isinstance(value, (type, types.ModuleType, types.FunctionType)):
                    self._others.append(_Binding(functools.partial(space.get, name), functools.partial(space.__setitem__, name)))
                self._push((value,), owned)

    def _keep_object(self, value: Any, owned: bool) -> None:
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict) or _package(type(value).__module__) in OPAQUE:
            return
        owned = owned or isinstance(value, STATEFUL)
        if isinstance(value, Dataset):
            # Samples are data; what draws them is state.
            return self._push((each for each in attributes.values() if state_of(each) is not None), owned)
        if owned:
            self._others.append(_of_dict(attributes))
        self._push((each for name, each in attributes.items() if name != "dataset"), owned)


def _package(module: str | None) -> str:
    return (module or "").split(".")[0]


def _names_in(code: types.CodeType) -> set[str]:
    """Names of globals that a function reads, its inner functions too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_in(constant)
    return names
