"""How the trained parameters of a model are used in a pass, from its layers and the graph that autograd made.

A hook notes the input of each layer that `layers` knows. Then the graph of the losses is walked, around these layers. A parameter that the walk
still reaches is used outside of them: added, expanded or multiplied elementwise are right, everything else is refused by name. So no use of a
parameter is overlooked.

A tap is a place in the graph whose gradient has the samples as its first dimension. The backward pass visits taps, and computes gradients of no
parameter: the products that would are left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from accrue.errors import UsageError
from accrue.privacy.layers import Found, Uses, uses_of
from accrue.privacy.uses import Small, exact

OPERATION = "clipped gradients"
ONE_BY_ONE = "micro-batches of one sample, which every model can have"

# An edge of the graph: a node, and the index of its result.
Edge = tuple[Any, int]
# Finds the uses of parameters from the gradient of a tap.
Finder = Callable[[torch.Tensor], Found]

_NEVER_SEEN = ("CheckpointFunction", "CompiledFunction")


def refuse(expected: str, received: str, suggestion: str = ONE_BY_ONE) -> None:
    raise UsageError(OPERATION, expected, received, suggestion)


@dataclasses.dataclass
class Call:
    """A call of a layer."""

    name: str
    module: nn.Module
    uses: Uses
    input: torch.Tensor
    version: int
    output: Edge
    shape: torch.Size
    inputs: list[Edge]


@contextlib.contextmanager
def noted_calls(model: nn.Module, trained: Mapping[nn.Parameter, str]) -> Iterator[list[Call]]:
    """Notes the calls of layers with trained parameters. No hook stays behind."""
    calls: list[Call] = []

    def hook(name: str, module: nn.Module, uses: Uses) -> Callable[..., None]:
        def note(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            if torch.is_tensor(output) and output.requires_grad and _has_plain_parameters(module):
                x = args[0] if args else next(iter(kwargs.values()))
                edge = get_gradient_edge(output)
                inputs = [tuple(get_gradient_edge(x))[:2]] if x.requires_grad else []
                calls.append(Call(name, module, uses, x.detach(), x._version, (edge.node, edge.output_nr), output.shape, inputs))
        return note

    with contextlib.ExitStack() as hooks:
        for name, module in model.named_modules():
            uses = uses_of(module)
            if uses is not None and any(parameter in trained for parameter in module.parameters(recurse=False)):
                # First: hooks of others may replace the output.
                handle = module.register_forward_hook(hook(name, module, uses), prepend=True, with_kwargs=True)
                hooks.callback(handle.remove)
        yield calls


def _has_plain_parameters(module: nn.Module) -> bool:
    """Not if weights are computed: by parametrizations, or in torch.func.functional_call."""
    own = (getattr(module, "weight", None), getattr(module, "bias", None))
    return set(module._parameters) <= {"weight", "bias"} and all(each is None or isinstance(each, nn.Parameter) for each in own)


def _shape(edge: Edge) -> torch.Size:
    node, index = edge
    return torch.Size(node._input_metadata[index].shape)


def _is_parameter(node: Any) -> bool:
    return node.name().endswith("AccumulateGrad")


class Graph:
    """The graph of losses, around the layers that were noted.

    Args:
        losses: one for each sample.
        calls: of layers.
        trained: the names of the parameters.

    Raises:
        UsageError: a parameter is used in a way that is not known.
    """

    def __init__(self, losses: torch.Tensor, calls: list[Call], trained: Mapping[nn.Parameter, str]):
        self._samples = losses.shape[0]
        self._trained = trained
        self.taps: dict[Edge, list[Finder]] = {}
        self.names: dict[Edge, str] = {}
        # Passes of the same form have the same taps, whatever their sizes.
        self.form: list[tuple[str, str, int]] = []
        self._consumers: dict[Edge, list[tuple[Any, int]]] = {}
        self._order: list[Any] = []
        self._next: dict[Any, list[Any]] = {}
        self._noted: dict[Any, list[Call]] = {}
        for call in calls:
            self._noted.setdefault(call.output[0], []).append(call)
        self._walk(losses.grad_fn)
        for call in calls:
            if call.output[0] in self._next:
                self._place(call)
        for node in self._order:
            if _is_parameter(node) and node.variable in trained:
                self._place_parameter(node, node.variable)
        self.ends = self._ends()
        # Inputs of layers are held by the finders alone, and the graph by its losses.
        for each in (self._consumers, self._order, self._next, self._noted):
            each.clear()

    def visit(self, losses: torch.Tensor, weights: torch.Tensor, visitor: Callable[[Edge, torch.Tensor], None], *, again: bool) -> None:
        """Runs the backward pass of the weighted losses, and calls visitor(tap, gradient). `again`: another pass will follow."""
        def hook(edge: Edge) -> Callable[..., None]:
            def seen(gradients: tuple[torch.Tensor | None, ...]) -> None:
                if gradients[edge[1]] is not None:
                    visitor(edge, gradients[edge[1]])
            return seen

        if not self.ends:
            return
        ends = set(self.ends)
        with contextlib.ExitStack() as hooks:
            for edge in self.taps:
                if edge not in ends:
                    hooks.callback(edge[0].register_prehook(hook(edge)).remove)
            gradients = torch.autograd.grad(losses, [GradientEdge(*edge) for edge in self.ends], weights, retain_graph=again, allow_unused=True)
        for edge, gradient in zip(self.ends, gradients):
            if gradient is not None:
                visitor(edge, gradient)

    def _walk(self, root: Any) -> None:
        """Fills _order (a node stands behind all that it leads to), _next and _consumers."""
        stack = [(root, iter(self._edges_behind(root)))]
        self._next[root] = []
        while stack:
            node, edges = stack[-1]
            for child, _ in edges:
                self._next[node].append(child)
                if child not in self._next:
                    self._next[child] = []
                    stack.append((child, iter(self._edges_behind(child))))
                    break
            else:
                self._order.append(node)
                stack.pop()

    def _edges_behind(self, node: Any) -> list[Edge]:
        calls = self._noted.get(node)
        if calls is not None:
            edges = [edge for call in calls for edge in call.inputs]
            consumers: list[tuple[Any, int]] = [(None, 0)] * len(edges)
        else:
            if any(name in node.name() for name in _NEVER_SEEN):
                refuse("a model whose operations autograd sees", node.name(), "use_reentrant=False for gradient checkpointing, and a model that is not compiled")
            edges = [edge for edge in node.next_functions if edge[0] is not None]
            consumers = [(node, index) for index, edge in enumerate(node.next_functions) if edge[0] is not None]
        for edge, consumer in zip(edges, consumers):
            self._consumers.setdefault(tuple(edge), []).append(consumer)
        return edges

    def _place(self, call: Call) -> None:
        shape, x = call.shape, call.input
        spreads = any(node is not None and node.name() in _SPREADING and len(_shape((node, 0))) > len(shape)
                      for node, _ in self._consumers.get(call.output, []))
        if not spreads and len(shape) > 1 and shape[0] == self._samples and x.shape[0] == self._samples:
            self._add(call.output, call.name, lambda gradient: self._found(call, x, gradient), len(shape))
            return
        received = f"{call.name} ({type(call.module).__name__}) with a result of shape {list(shape)} for {self._samples} losses"
        if isinstance(call.module, nn.Conv2d):
            refuse("samples as the first dimension of each layer", received)
        for edge, form in self._spread(call.output, shape, received):
            def finder(gradient: torch.Tensor, form: Callable[[torch.Tensor], torch.Tensor] = form) -> Found:
                by_sample = form(gradient)
                one = x.unsqueeze(0) if by_sample.dim() > len(shape) else x
                return self._found(call, one.expand(self._samples, *one.shape[1:]), by_sample)
            self._add(edge, call.name, finder, len(_shape(edge)))

    def _found(self, call: Call, x: torch.Tensor, gradient: torch.Tensor) -> Found:
        if call.input._version != call.version:
            refuse("inputs of layers that stay as they are", f"the input of {call.name}, which was changed in place")
        return ((parameter, use) for parameter, use in call.uses(call.module, x, gradient) if parameter in self._trained)

    def _place_parameter(self, node: Any, parameter: nn.Parameter) -> None:
        received = f"{self._trained[parameter]}, a parameter of shape {list(parameter.shape)} that is used elsewhere"
        for edge, form in self._spread((node, 0), parameter.shape, received):
            def finder(gradient: torch.Tensor, form: Callable[[torch.Tensor], torch.Tensor] = form) -> Found:
                yield parameter, Small(form(gradient).reshape(gradient.shape[0], -1))
            self._add(edge, self._trained[parameter], finder, len(_shape(edge)))

    def _spread(self, source: Edge, shape: torch.Size, received: str) -> Iterator[tuple[Edge, Callable[[torch.Tensor], torch.Tensor]]]:
        """Finds the places at which a value without samples meets them: sums, products and expansions of it.

        Yields each place, and what makes its gradient that of the value by sample: [samples, *shape], without a first dimension of 1.
        """
        for node, index in self._consumers.get(source, []):
            name = node.name() if node is not None else "a layer"
            before, after = _shape(source) if not _is_parameter(source[0]) else shape, None if node is None else _shape((node, 0))
            # Right-aligned, as torch broadcasts.
            if name not in _SPREADING or (name == "RepeatBackward0" and after[1:] != before[1:]) or getattr(node, "_saved_alpha", 1) != 1:
                refuse("trained parameters in Linear, Conv1D, Embedding, LayerNorm, RMSNorm or Conv2d layers with the samples as their first dimension, "
                       "or added to or multiplied with such values", f"{received} (by {name})", f"requires_grad_(False) for it, or {ONE_BY_ONE}")
            if len(after) > 0 and after[0] == self._samples and (len(before) < len(after) or before[0] == 1):
                other = None
                if name == "MulBackward0":
                    other = node._saved_other if index == 0 else node._saved_self
                yield (node, 0), _by_sample(shape, other)
            elif name == "MulBackward0":
                refuse("parameters that are multiplied with values of each sample", received)
            else:
                yield from self._spread((node, 0), shape, received)

    def _add(self, edge: Edge, name: str, finder: Finder, dimensions: int) -> None:
        self.taps.setdefault(edge, []).append(finder)
        self.names[edge] = name
        self.form.append((name, edge[0].name(), dimensions))

    def _ends(self) -> list[Edge]:
        """The taps behind which there is no other one. A backward pass that reaches them visits all."""
        nodes = {node for node, _ in self.taps}
        leads: set[Any] = set()
        for node in self._order:
            if any(child in nodes or child in leads for child in self._next[node]):
                leads.add(node)
        return [edge for edge in self.taps if edge[0] not in leads]


_SPREADING = ("AddBackward0", "ExpandBackward0", "RepeatBackward0", "MulBackward0", "ToCopyBackward0")


def _by_sample(shape: torch.Size, other: torch.Tensor | None) -> Callable[[torch.Tensor], torch.Tensor]:
    def form(gradient: torch.Tensor) -> torch.Tensor:
        values = exact(gradient) if other is None else exact(gradient) * other
        # As a rule there are more dimensions than those of the value; else its first one is 1.
        rest = shape if len(shape) < values.dim() else shape[1:]
        ones = [1] * (values.dim() - 1 - len(rest))
        return values.sum_to_size([values.shape[0], *ones, *rest]).reshape(values.shape[0], *rest)
    return form


def expect_separate(graph: Graph, losses: torch.Tensor, counts: torch.Tensor) -> bool:
    """Runs a backward pass of every other loss: the gradients of the other samples have to be 0 at each tap.

    Args:
        counts: the weights of the losses; 0: one does not count.

    Returns False, and runs nothing, if none of these losses counts.

    Raises:
        UsageError: a loss depends on another sample, or the samples are not the first dimension.
    """
    every_other = torch.arange(losses.shape[0], device=losses.device) % 2 == 0
    mixed: list[str] = []

    def compare(edge: Edge, gradient: torch.Tensor) -> None:
        others = gradient[~every_other]
        # Of values that are not finite, products with 0 are not 0.
        if bool(((others != 0) & ~others.isnan()).any()):
            mixed.append(graph.names[edge])

    if not bool((counts != 0)[every_other].any()):
        return False
    graph.visit(losses, counts * every_other, compare, again=True)
    if mixed:
        refuse("losses that each depend on one sample alone, which is the first dimension of each layer",
               f"losses that depend on what {mixed[0]} has for other samples", "a loss and layers that do not mix samples")
    return True
