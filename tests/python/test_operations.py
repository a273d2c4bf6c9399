"""Operators beside torch's own: values, gradients, torch.compile; logits that are never made."""

import pytest
import torch
from torch import nn

import accrue
from accrue.deferred import DeferredLogits

ROWS, WIDTH, WORDS = 21, 8, 50


def head(dtype=torch.float64, bias=True):
    torch.manual_seed(2)
    hidden = torch.randn(ROWS, WIDTH, dtype=dtype, requires_grad=True)
    weight = torch.randn(WORDS, WIDTH, dtype=dtype, requires_grad=True)
    offset = torch.randn(WORDS, dtype=dtype, requires_grad=True) if bias else None
    targets = torch.randint(WORDS, (ROWS,))
    targets[::4] = -100
    return hidden, weight, offset, targets


def gradients(total, *tensors):
    return torch.autograd.grad(total, [tensor for tensor in tensors if tensor is not None], retain_graph=True)


def close(left, right, bound):
    return all(float((a - b).norm()) <= bound * float(b.norm()) for a, b in zip(left, right))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [True, False])
def test_linear_cross_entropy_is_torchs(bias, smoothing, weighted):
    hidden, weight, offset, targets = head(bias=bias)
    rows = torch.rand(ROWS) if weighted else None
    loss = accrue.linear_cross_entropy(hidden, weight, targets, offset, row_weights=rows, label_smoothing=smoothing)
    each = nn.functional.cross_entropy(nn.functional.linear(hidden, weight, offset), targets, label_smoothing=smoothing, reduction="none")
    counts = (targets != -100).double() * (rows.double() if weighted else 1)
    assert abs(float(loss.sum.detach()) - float((each * counts).sum().detach())) < 1e-9
    assert abs(loss.weight - float(counts.sum())) < 1e-5
    assert close(gradients(loss.sum, hidden, weight, offset), gradients((each * counts).sum(), hidden, weight, offset), 1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_operators_are_kept_by_torch_compile(bias):
    hidden, weight, offset, targets = head(torch.float32, bias)

    def mean(hidden, weight, offset, targets):
        middle = accrue.linear(hidden, weight[:WIDTH], None)
        return accrue.linear_cross_entropy_sum(middle, weight, targets, offset) / (targets != -100).sum()

    graphs = []

    def keep(graph, inputs):
        graphs.append(str(graph.graph))
        return graph.forward

    compiled = torch.compile(mean, backend=keep, fullgraph=True)(hidden, weight, offset, targets)
    assert "torch.ops.accrue.linear_cross_entropy]" in graphs[0] and "torch.ops.accrue.linear]" in graphs[0]
    plain = nn.functional.cross_entropy(nn.functional.linear(hidden @ weight[:WIDTH].T, weight, offset), targets)
    assert close([compiled.detach()], [plain.detach()], 1e-6)
    assert close(gradients(compiled, hidden, weight, offset), gradients(plain, hidden, weight, offset), 1e-5)


def test_operators_pass_torchs_own_checks():
    hidden, weight, offset, targets = head(torch.float64)
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_static")
    torch.library.opcheck(torch.ops.accrue.linear.default, (hidden, weight, offset), test_utils=checks)
    torch.library.opcheck(torch.ops.accrue.linear_cross_entropy.default, (hidden, weight, targets, offset, -100, 0.0), test_utils=checks)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)

    def get_output_embeddings(self):
        return self.head

    def forward(self, ids):
        return self.head(self.words(ids))


def losses(logits, ids):
    """As transformers and people write them."""
    labels = ids[:, 1:].flatten()
    yield nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels)
    yield nn.functional.cross_entropy(logits[:, :-1, :].contiguous().view(-1, logits.size(-1)), labels, reduction="sum")
    yield nn.functional.cross_entropy(logits[..., :-1, :].float().reshape(-1, WORDS), labels, ignore_index=3)
    yield nn.CrossEntropyLoss(label_smoothing=0.1)(logits[:, :-1].to(torch.float32).reshape((-1, WORDS)), labels)


def test_cross_entropy_makes_no_logits():
    model, ids = Language(), torch.randint(WORDS, (3, 7))
    plain = list(losses(model(ids), ids))
    with accrue.accelerate(model) as accelerated:
        logits = model(ids)
        assert isinstance(logits, DeferredLogits) and logits.shape == (3, 7, WORDS) and logits.dtype == torch.float32
        taken = list(losses(logits, ids))
        assert logits.made is None and accelerated.calls["losses_without_logits"] == len(taken)
        for ours, theirs in zip(taken, plain):
            assert close([ours.detach()], [theirs.detach()], 1e-6)
            assert close(gradients(ours, *model.parameters()), gradients(theirs, *model.parameters()), 1e-5)
    assert type(model(ids)) is torch.Tensor


def test_whatever_else_reads_logits_finds_them():
    model, ids = Language(), torch.randint(WORDS, (3, 7))
    plain = model(ids)
    readers = [lambda x: x.argmax(-1), lambda x: x.softmax(-1), lambda x: x[..., :5], lambda x: x + 1, lambda x: 2 * x, lambda x: x.sum(),
               lambda x: torch.cat([x, x]), lambda x: x[ids == ids], lambda x: x.view(3, -1), lambda x: x.double(),
               lambda x: nn.functional.cross_entropy(x.transpose(1, 2), ids), lambda x: x.mean((0, 1)), lambda x: x.detach(),
               lambda x: x[0, 1, 2], lambda x: nn.functional.cross_entropy(x.flatten(0, 1), ids.flatten(), weight=torch.ones(WORDS))]
    with accrue.accelerate(model):
        for reader in readers:
            ours = reader(model(ids))
            assert type(ours) is torch.Tensor
            assert torch.allclose(ours.double(), reader(plain).double(), atol=1e-5)
        with torch.no_grad():
            assert type(model(ids)) is torch.Tensor


def test_a_transformers_model_makes_no_logits():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    kinds = [transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=WORDS, n_positions=16)),
             transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=1, num_attention_heads=2, hidden_size=16,
                                                                    intermediate_size=16, vocab_size=WORDS))]
    ids = torch.randint(WORDS, (3, 9))
    for model in kinds:
        model.eval()
        plain = model(input_ids=ids, labels=ids).loss
        with accrue.accelerate(model) as accelerated:
            ours = model(input_ids=ids, labels=ids).loss
            assert accelerated.calls["losses_without_logits"] == 1, type(model).__name__
            assert accelerated.calls["gelus"] == ("GPT2" in type(model).__name__)
            assert close([ours.detach()], [plain.detach()], 1e-6)
            assert close(gradients(ours, *model.parameters()), gradients(plain, *model.parameters()), 1e-4)
            with torch.autocast("cpu", torch.bfloat16):
                rounded = model(input_ids=ids, labels=ids).loss
            assert accelerated.calls["losses_without_logits"] == 2
            assert close([rounded.detach()], [plain.detach()], 2e-2)


def test_an_accelerated_model_keeps_it_and_is_copied_and_saved(tmp_path):
    import copy

    model, ids = Language(), torch.randint(WORDS, (3, 7))
    plain = model(ids)
    accrue.accelerate(model)  # nobody holds what it returns
    assert isinstance(model(ids), DeferredLogits)
    twin = copy.deepcopy(model)
    assert torch.allclose(twin(ids).softmax(-1), plain.softmax(-1), atol=1e-6)
    torch.save(model, tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert torch.allclose(loaded(ids).softmax(-1), plain.softmax(-1), atol=1e-6)
    second = accrue.accelerate(model)
    second.close()
    assert type(model(ids)) is torch.Tensor and not hasattr(model, "_accrue_accelerated")


def gradient_norms(model, total):
    model.zero_grad()
    total.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


USES = {
    "accuracy first": lambda logits, ids: (_accuracy(logits, ids), nn.functional.cross_entropy(logits.view(-1, WORDS), ids.flatten()))[1],
    "masked vocabulary": lambda logits, ids: _masked(logits, ids),
    "halved in place": lambda logits, ids: _halved(logits, ids),
    "loss and penalty": lambda logits, ids: nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()) + logits.logsumexp(-1).square().mean(),
    "loss twice": lambda logits, ids: sum(nn.functional.cross_entropy(logits[:, begin:].flatten(0, 1), ids[:, begin:].flatten()) for begin in (0, 2)),
    "cut backwards": lambda logits, ids: nn.functional.cross_entropy(logits[-1], ids[-1]) + logits[1:, -3:, :].float().sum() * 0.01,
    "named shape": lambda logits, ids: nn.functional.cross_entropy(torch.Tensor.reshape(logits, shape=(-1, WORDS)), ids.flatten()),
}


def _accuracy(logits, ids):
    with torch.no_grad():
        return (logits.argmax(-1) == ids).float().mean()


def _masked(logits, ids):
    rows = logits.view(-1, WORDS)
    rows[:, 0] = -1e9
    return nn.functional.cross_entropy(logits.view(-1, WORDS), ids.flatten())


def _halved(logits, ids):
    logits[:, :-1].mul_(0.5)
    return nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())


@pytest.mark.parametrize("use", USES)
def test_uses_of_logits_are_torchs(use):
    model, ids = Language().double(), torch.randint(1, WORDS, (3, 7))
    theirs = USES[use](model(ids), ids)
    expected = gradient_norms(model, theirs)
    with accrue.accelerate(model):
        ours = USES[use](model(ids), ids)
        assert close([ours.detach()], [theirs.detach()], 1e-12)
        assert close(gradient_norms(model, ours), expected, 1e-10)


def test_dtypes_under_autocast_are_torchs():
    model, ids = Language(), torch.randint(WORDS, (3, 7))
    with accrue.accelerate(model):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids)
        assert logits.dtype == torch.bfloat16 and logits.float().dtype == torch.float32
        assert logits.float().log_softmax(-1).dtype == torch.float32 and logits.float().logsumexp(-1).dtype == torch.float32
        model.double()
        assert model(ids).to(torch.float32).dtype == torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            assert model(ids).dtype == torch.float64


def test_functional_calls_have_their_own_weights():
    model, ids = Language(), torch.randint(WORDS, (3, 7))
    doubled = {name: 2 * value for name, value in model.named_parameters()}
    plain = nn.functional.cross_entropy(torch.func.functional_call(model, doubled, (ids,)).flatten(0, 1), ids.flatten())
    with accrue.accelerate(model):
        ours = nn.functional.cross_entropy(torch.func.functional_call(model, doubled, (ids,)).flatten(0, 1), ids.flatten())
        assert close([ours.detach()], [plain.detach()], 1e-6)

        def of(weights):
            return nn.functional.cross_entropy(torch.func.functional_call(model, weights, (ids,)).flatten(0, 1), ids.flatten())

        gradients_of_transform = torch.func.grad(of)({name: value.detach() for name, value in doubled.items()})
    assert set(gradients_of_transform) == set(doubled)


def test_what_no_subclass_goes_through_is_refused_by_name_and_can_be_had():
    model, ids = Language(), torch.randint(WORDS, (3, 7))

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return 2 * x

        @staticmethod
        def backward(context, gradient):
            return 2 * gradient

    with accrue.accelerate(model):
        with pytest.raises(accrue.UsageError, match="defer_logits=False"):
            Twice.apply(model(ids)).sum().backward()
        with pytest.raises(RuntimeError):  # TorchScript makes another error of it
            torch.jit.trace(lambda x: x.tanh(), torch.ones(3, 7, WORDS))(model(ids))
    with accrue.accelerate(model, defer_logits=False):
        Twice.apply(model(ids)).sum().backward()


def test_a_head_with_a_forward_of_its_own_keeps_it():
    model, ids, calls = Language(), torch.randint(WORDS, (3, 7)), []
    own = model.head.forward

    def counting(hidden):
        calls.append(1)
        return own(hidden)

    model.head.forward = counting
    with accrue.accelerate(model):
        assert type(model(ids)) is torch.Tensor
    model(ids)
    assert len(calls) == 2
