"""Clipped sums of torch models without a gradient for each sample, against a loop over samples and against Opacus."""

import collections
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import accrue

pytest.importorskip("dp_accounting")
transformers = pytest.importorskip("transformers")
from accrue import privacy  # noqa: E402
from accrue.privacy import uses  # noqa: E402

SAMPLES, LENGTH, VOCAB, WIDTH = 5, 7, 19, 8
TOLERANCE = 1e-6

Tensors = dict[str, torch.Tensor]


def gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_head=2, n_embd=WIDTH, n_positions=LENGTH, vocab_size=VOCAB, use_cache=False,
                                                                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.3))


def llama() -> nn.Module:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, hidden_size=WIDTH,
                                                                  intermediate_size=12, vocab_size=VOCAB, use_cache=False, initializer_range=0.3))


def bert() -> nn.Module:
    return transformers.BertForMaskedLM(transformers.BertConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=WIDTH, intermediate_size=12,
                                                                vocab_size=VOCAB, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                                                initializer_range=0.3))


def vit() -> nn.Module:
    return transformers.ViTForImageClassification(transformers.ViTConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=WIDTH, intermediate_size=12,
                                                                         image_size=8, patch_size=4, num_labels=3, hidden_dropout_prob=0.0,
                                                                         attention_probs_dropout_prob=0.0, initializer_range=0.3))


def texts(samples: int = SAMPLES, length: int = LENGTH) -> Tensors:
    """Labels at some places: samples differ in their number of loss terms, and the last but one has none."""
    ids = torch.randint(1, VOCAB, (samples, length))
    ids[0, -2:] = 0  # BERT's padding
    labels = ids.where(torch.rand(samples, length) < 0.7, -100)
    labels[:, 1], labels[-2] = ids[:, 1], -100
    return {"input_ids": ids, "labels": labels}


def pictures() -> Tensors:
    return {"pixel_values": torch.randn(SAMPLES, 3, 8, 8), "labels": torch.randint(3, (SAMPLES,))}


def terms_of(model: nn.Module, micro_batch: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """The sums of a text's loss terms, and their numbers."""
    logits = model(micro_batch["input_ids"]).logits
    losses = functional.cross_entropy(logits.flatten(0, 1), micro_batch["labels"].flatten(), reduction="none").view(logits.shape[:2])
    return losses.sum(1), micro_batch["labels"].ne(-100).sum(1)


def loss_of_pictures(model: nn.Module, micro_batch: Tensors) -> torch.Tensor:
    return functional.cross_entropy(model(micro_batch["pixel_values"]).logits, micro_batch["labels"], reduction="none")


def means_of(found) -> torch.Tensor:
    return found if torch.is_tensor(found) else found[0] / found[1].clamp(min=1)


def part(micro_batch: Tensors, which) -> Tensors:
    return {name: each[which] for name, each in micro_batch.items()}


def gradients_one_by_one(model: nn.Module, loss_fn, micro_batch: Tensors) -> list[Tensors]:
    """The gradient of each sample's mean loss: a pass for each sample."""
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    found = []
    for sample in range(len(next(iter(micro_batch.values())))):
        loss = means_of(loss_fn(model, part(micro_batch, slice(sample, sample + 1)))).sum()
        gradients = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        found.append({name: torch.zeros_like(trained[name]) if each is None else each for name, each in zip(trained, gradients)})
    return found


def norm_of(gradient: Tensors) -> float:
    return math.sqrt(sum(float(each.double().square().sum()) for each in gradient.values()))


def clipped_sum(gradients: list[Tensors], clip: float) -> Tensors:
    norms = [norm_of(each) for each in gradients]
    return {name: sum(each[name].double() * min(1.0, clip / norm) for each, norm in zip(gradients, norms) if norm > 0) for name in gradients[0]}


def is_close(these: Tensors, others: Tensors, tolerance: float = TOLERANCE) -> bool:
    return set(these) == set(others) and all(torch.allclose(each.double(), others[name].double(), rtol=0, atol=tolerance) for name, each in these.items())


def clip_between(gradients: list[Tensors]) -> float:
    """A clip with samples on both of its sides."""
    norms = sorted(norm for norm in map(norm_of, gradients) if norm > 0)
    return (norms[1] + norms[2]) / 2


def hooks_of(model: nn.Module) -> list[int]:
    return [hook for module in model.modules() for hook in module._forward_hooks]


def check(model: nn.Module, loss_fn, micro_batch: Tensors) -> privacy.ClippedGradients:
    """Compares the sum with that of a loop, and looks whether the model is left as it was."""
    one_by_one = gradients_one_by_one(model, loss_fn, micro_batch)
    clip = clip_between(one_by_one)
    expected = clipped_sum(one_by_one, clip)
    assert not is_close(expected, clipped_sum(one_by_one, 1e9)), "something is clipped"
    assert not is_close(expected, clipped_sum(one_by_one, 1.001 * clip)), "the comparison sees a difference of a thousandth"
    hooks = hooks_of(model)
    clipped = privacy.ClippedGradients(model, loss_fn, clip=clip)
    clipped.add(micro_batch)
    assert is_close(clipped.total(), expected, TOLERANCE * max(1.0, clip))
    norms = sorted(norm for norm in map(norm_of, one_by_one) if norm > 0)
    assert sorted(clipped._norms)[-len(norms):] == pytest.approx(norms, rel=1e-4)
    assert all(parameter.grad is None for parameter in model.parameters()), "what autograd accumulates is not touched"
    assert hooks_of(model) == hooks
    return clipped


MODELS = [(gpt2, terms_of, texts), (llama, terms_of, texts), (bert, terms_of, texts), (vit, loss_of_pictures, pictures)]


@pytest.mark.parametrize("model, loss_fn, data", MODELS, ids=[make.__name__ for make, *_ in MODELS])
def test_models_of_transformers_are_those_of_a_loop_over_samples(model, loss_fn, data):
    made, micro_batch = model(), data()
    clipped = check(made, loss_fn, micro_batch)
    assert clipped.samples == SAMPLES and clipped.unprotected.left_out == (0 if model is vit else 1)
    whole = clipped.total()
    clipped.forget()
    for which in (slice(0, 1), slice(1, 4), slice(4, SAMPLES)):  # the same sum in parts, some of one sample
        clipped.add(part(micro_batch, which))
    assert is_close(clipped.total(), whole)


@pytest.mark.parametrize("model, loss_fn, data", MODELS, ids=[make.__name__ for make, *_ in MODELS])
def test_models_of_transformers_are_those_of_opacus(model, loss_fn, data):
    """Opacus clips gradients that a loop finds, since it has no rule for tied parameters."""
    pytest.importorskip("opacus")
    from opacus.optimizers import DPOptimizer

    made, micro_batch = model(), data()
    one_by_one = gradients_one_by_one(made, loss_fn, micro_batch)
    clip = clip_between(one_by_one)
    clipped = privacy.ClippedGradients(made, loss_fn, clip=clip)
    clipped.add(micro_batch)
    theirs = {name: nn.Parameter(each.detach().clone()) for name, each in made.named_parameters()}
    optimizer = DPOptimizer(torch.optim.SGD(theirs.values(), lr=1.0), noise_multiplier=0.0, max_grad_norm=clip, expected_batch_size=1)
    for name, each in theirs.items():
        each.grad_sample = torch.stack([gradient[name] for gradient in one_by_one])
    optimizer.pre_step()
    found = {name: each.grad for name, each in theirs.items()}
    assert is_close(clipped.total(), found, 2e-6)  # Opacus divides by the norm + 1e-6
    assert not is_close(clipped.total(), {name: 1.001 * each for name, each in found.items()}, 2e-6)


class Plain(nn.Module):
    """Layers that Opacus has rules for."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.inner, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, VOCAB)

    def forward(self, ids: torch.Tensor) -> collections.namedtuple:
        x = self.norm(self.embedding(ids))
        return Output(self.head(torch.tanh(self.inner(x).cumsum(1))))


Output = collections.namedtuple("Output", "logits")


def test_plain_layers_are_those_of_opacus_from_its_own_hooks():
    pytest.importorskip("opacus")
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model, micro_batch = Plain(), texts()
    one_by_one = gradients_one_by_one(model, terms_of, micro_batch)
    clip = clip_between(one_by_one)
    clipped = privacy.ClippedGradients(model, terms_of, clip=clip)
    clipped.add(micro_batch)
    total = clipped.total()
    theirs = GradSampleModule(model, loss_reduction="sum")
    optimizer = DPOptimizer(torch.optim.SGD(theirs.parameters(), lr=1.0), noise_multiplier=0.0, max_grad_norm=clip, expected_batch_size=1)
    means_of(terms_of(theirs, micro_batch)).sum().backward()
    optimizer.pre_step()
    assert is_close(total, {name: each.grad for name, each in model.named_parameters()}, 2e-6)


def test_without_the_cross_terms_tied_parameters_are_wrong(monkeypatch):
    check(gpt2(), terms_of, texts())
    monkeypatch.setattr(uses, "cross_terms", lambda product, lookup: torch.zeros(product.gradients().shape[0], dtype=torch.float64))
    with pytest.raises(AssertionError):
        check(gpt2(), terms_of, texts())


class Several(nn.Module):
    """Layers that run twice, and parameters that layers of all kinds share."""

    def __init__(self):
        super().__init__()
        self.words, self.others = nn.Embedding(VOCAB, WIDTH, padding_idx=0), nn.Embedding(VOCAB, WIDTH)
        self.others.weight = self.words.weight
        self.both, self.twice = nn.Linear(WIDTH, WIDTH), nn.RMSNorm(WIDTH)
        self.turned = transformers.Conv1D(WIDTH, WIDTH)
        self.turned.weight = self.both.weight  # [in, out] in one and [out, in] in the other
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.words.weight
        self.scale, self.shift = nn.Parameter(torch.rand(WIDTH)), nn.Parameter(torch.rand(1, LENGTH, WIDTH))
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.positions, self.unused = nn.Embedding(LENGTH, WIDTH), nn.Linear(2, 2)

    def forward(self, ids: torch.Tensor) -> Output:
        x = self.words(ids) + self.others(ids.flip(1)) + self.positions(torch.arange(ids.shape[1]))
        x = self.twice(self.both(x) * self.scale + self.shift)
        x = x + torch.tanh(self.both(input=self.twice(x.cumsum(1)))) + torch.tanh(self.turned(x))
        return Output(self.head(x * self.temperature))


def test_shared_parameters_and_layers_that_run_twice():
    check(Several(), terms_of, texts())


@pytest.mark.parametrize("length, width", [(1, 12), (30, 4), (3, 40)])
def test_norms_are_right_whichever_way_is_less_work(length, width):
    products = [uses.Product(lambda a=torch.randn(6, length, width): a, torch.randn(6, length, 2 * width), False) for _ in range(2)]
    shape = torch.Size((2 * width, width))
    for few in (products[:1], products):
        expected = torch.stack([sum(each.of_sample(sample, shape).double() for each in few).square().sum() for sample in range(6)])
        assert torch.allclose(uses.squared_norms(few, shape), expected, rtol=1e-5)


def test_norms_of_many_samples_are_found_in_parts(monkeypatch):
    model, micro_batch = gpt2(), texts()
    clipped = privacy.ClippedGradients(model, terms_of, clip=1.0)
    clipped.add(micro_batch)
    whole = clipped.total()
    monkeypatch.setattr(uses, "FEW_ELEMENTS", 1)
    clipped.forget()
    clipped.add(micro_batch)
    assert is_close(clipped.total(), whole)


class Pictures(nn.Module):
    """Convolutions that overlap, pictures that patches do not fill, and a token as DeiT repeats it."""

    def __init__(self):
        super().__init__()
        self.overlap = nn.Conv2d(3, 4, 3, stride=2, padding=1, dilation=2)
        self.patches = nn.Conv2d(4, WIDTH, 2, stride=2)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x: torch.Tensor) -> Output:
        x = self.patches(torch.tanh(self.overlap(x))).flatten(2).mT
        x = torch.cat((self.token.repeat(x.shape[0], 1, 1), x), 1)
        return Output(self.head(torch.tanh(x).cumsum(1).prod(1)))


def test_convolutions_and_tokens():
    check(Pictures(), loss_of_pictures, pictures())


@pytest.mark.parametrize("trained", [["transformer.wte.weight"], ["transformer.h.1.ln_1.bias", "transformer.h.1.mlp.c_fc.bias"], ["transformer.wpe.weight"],
                                     ["transformer.h.1.attn.c_attn.weight"]])
def test_frozen_parameters_count_for_nothing(trained):
    model = gpt2()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    clipped = check(model, terms_of, texts())
    assert list(clipped.total()) == trained


def test_gradient_checkpointing_and_dropout_are_right():
    model = gpt2().train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    check(model, terms_of, texts())
    model.gradient_checkpointing_enable({"use_reentrant": True})
    with pytest.raises(accrue.UsageError, match="use_reentrant=False"):
        privacy.ClippedGradients(model, terms_of, clip=1.0).add(texts())
    dropping = Plain()
    dropping.norm = nn.Sequential(dropping.norm, nn.Dropout(0.5))
    micro_batch = part(texts(), slice(0, 2))
    clipped = privacy.ClippedGradients(dropping, terms_of, clip=1e3)
    torch.manual_seed(1)
    clipped.add(micro_batch)
    torch.manual_seed(1)
    clipped_at_once = clipped.total()
    means_of(terms_of(dropping, micro_batch)).sum().backward()
    assert is_close(clipped_at_once, {name: each.grad for name, each in dropping.named_parameters()})


def test_half_precision_has_norms_of_single_precision():
    model, micro_batch = gpt2(), texts()

    def rounded(model: nn.Module, micro_batch: Tensors):
        with torch.autocast("cpu", torch.bfloat16):
            return terms_of(model, micro_batch)

    one_by_one = gradients_one_by_one(model, rounded, micro_batch)
    clipped = privacy.ClippedGradients(model, rounded, clip=1e9)
    clipped.add(micro_batch)
    assert clipped._norms == pytest.approx([norm for norm in map(norm_of, one_by_one) if norm > 0], rel=2e-2)
    longest = privacy.ClippedGradients(model, rounded, clip=1e-3)
    longest.add(part(micro_batch, [0, 0]))
    assert norm_of(longest.total()) == pytest.approx(2e-3, rel=1e-5), "twice the same sample: the sum is as long as both clips"


def test_what_is_not_finite_counts_as_nothing():
    class Breaking(Plain):
        def forward(self, ids: torch.Tensor) -> Output:
            x = self.norm(self.embedding(ids) * torch.where((ids == 3).any(1), math.inf, 1.0)[:, None, None])
            return Output(self.head(torch.tanh(self.inner(x))))

    model, micro_batch = Breaking(), texts()
    micro_batch["input_ids"][micro_batch["input_ids"] == 3] = 4
    expected = privacy.ClippedGradients(model, terms_of, clip=0.1)
    expected.add(part(micro_batch, [0, 2, 3, 4]))
    micro_batch["input_ids"][1, 0] = 3
    clipped = privacy.ClippedGradients(model, terms_of, clip=0.1)
    clipped.add(micro_batch)
    assert is_close(clipped.total(), expected.total()) and clipped.unprotected.left_out == 2 and norm_of(clipped.total()) > 0.1
    before = clipped.total()
    clipped.add(part(micro_batch, [1]))
    clipped.add(part(micro_batch, [3]))  # no loss term
    clipped.add(part(micro_batch, [1, 3, 1]))
    assert is_close(clipped.total(), before, 0) and clipped.unprotected.left_out == 7 and clipped.unprotected.samples == SAMPLES + 5
    assert math.isfinite(clipped.unprotected.loss)


def reshaped(model: nn.Module, micro_batch: Tensors) -> torch.Tensor:
    return model(micro_batch["input_ids"]).logits.square().flatten(1).mean(1)


class Mixing(Plain):
    def forward(self, ids: torch.Tensor) -> Output:
        x = self.inner(self.embedding(ids))
        return Output(self.head(torch.tanh(x - x.mean(0))))


class SecondDimension(Plain):
    def forward(self, ids: torch.Tensor) -> Output:
        return Output(self.head(torch.tanh(self.inner(self.embedding(ids.mT)))).transpose(0, 1))


class ChangedInPlace(Plain):
    def forward(self, ids: torch.Tensor) -> Output:
        return Output(self.head(self.inner(self.embedding(ids)).relu_()))


class OutsideOfLayers(Plain):
    def forward(self, ids: torch.Tensor) -> Output:
        return Output(functional.linear(self.inner(self.embedding(ids)), self.head.weight))


class Attention(Plain):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, ids: torch.Tensor) -> Output:
        x = self.embedding(ids)
        return Output(self.head(self.inner(x + self.attention(x, x, x, need_weights=False)[0])))


class Normalized(Plain):
    def __init__(self):
        super().__init__()
        self.inner = nn.utils.parametrizations.weight_norm(self.inner)


class ByFrequency(Plain):
    def __init__(self):
        super().__init__()
        self.embedding.scale_grad_by_freq = True


REFUSED = [(Mixing, "losses that depend on what inner has for other samples"), (SecondDimension, r"received embedding \(Embedding\) with a result of shape \[7, 5, 8\] for 5 losses"),
           (ChangedInPlace, "received inner.(weight|bias), a parameter"), (OutsideOfLayers, r"received head.weight, a parameter of shape \[19, 24\]"),
           (Attention, "received attention.*, a parameter"), (Normalized, "received inner.*, a parameter"), (ByFrequency, "received embedding.weight, a parameter")]


@pytest.mark.parametrize("model, message", REFUSED, ids=[kind.__name__ for kind, _ in REFUSED])
def test_what_is_not_known_is_refused_by_name_and_right_with_one_sample(model, message):
    made, micro_batch = model(), texts()
    clipped = privacy.ClippedGradients(made, reshaped, clip=0.1)
    with pytest.raises(accrue.UsageError, match=f"clipped gradients: expected .*{message}.*; try "):
        clipped.add(micro_batch)
    assert clipped.samples == 0 and norm_of(clipped.total()) == 0
    assert not hooks_of(made) and all(each.grad is None and each.requires_grad for each in made.parameters())
    for sample in range(SAMPLES):
        clipped.add(part(micro_batch, [sample]))
    assert is_close(clipped.total(), clipped_sum(gradients_one_by_one(made, reshaped, micro_batch), 0.1))


def test_samples_in_the_second_dimension_are_found_if_there_are_as_many_as_positions():
    with pytest.raises(accrue.UsageError, match="losses that each depend on one sample alone, which is the first dimension"):
        privacy.ClippedGradients(SecondDimension(), reshaped, clip=1.0).add(texts(LENGTH))
    check(Several(), terms_of, texts(LENGTH))  # positions of shape [7, width] for 7 samples are no samples


def test_a_loss_of_several_samples_is_refused():
    def contrastive(model: nn.Module, micro_batch: Tensors) -> torch.Tensor:
        pooled = model(micro_batch["input_ids"]).logits.mean(1)
        return functional.cross_entropy(pooled @ pooled.mT, torch.arange(len(pooled)), reduction="none")

    with pytest.raises(accrue.UsageError, match="depend on what head has for other samples"):
        privacy.ClippedGradients(Plain(), contrastive, clip=1.0).add(texts())


def test_the_test_of_samples_waits_for_a_loss_that_counts():
    clipped = privacy.ClippedGradients(Mixing(), terms_of, clip=1.0)
    empty = part(texts(), [3, 3])
    clipped.add(empty)
    assert clipped.unprotected.left_out == 2
    with pytest.raises(accrue.UsageError, match="for other samples"):
        clipped.add(texts())


def test_statistics_over_samples_are_refused():
    model = Plain()
    model.norm = nn.BatchNorm1d(LENGTH)
    with pytest.raises(accrue.UsageError, match="received norm, a BatchNorm1d"):
        privacy.ClippedGradients(model, terms_of, clip=1.0).add(texts())

    class Counting(Plain):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, ids: torch.Tensor) -> Output:
            self.seen += ids.float().mean()
            return super().forward(ids)

    with pytest.raises(accrue.UsageError, match="received seen, which was changed"):
        privacy.ClippedGradients(Counting(), terms_of, clip=1.0).add(texts())


def test_a_model_is_left_as_it_was_after_an_error():
    model = gpt2()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)

    def fails(model: nn.Module, micro_batch: Tensors):
        terms_of(model, micro_batch)
        raise KeyError("a loop's own error")

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise KeyError("in the backward pass")

    for loss_fn in (fails, lambda model, micro_batch: Fails.apply(means_of(terms_of(model, micro_batch)))):
        clipped = privacy.ClippedGradients(model, loss_fn, clip=1.0)
        with pytest.raises(KeyError):
            clipped.add(texts())
        assert clipped.samples == 0 and not hooks_of(model)
    clipped = privacy.ClippedGradients(model, terms_of, clip=1.0)
    clipped.add(texts())
    assert all(bool(parameter.grad.eq(1).all()) for parameter in model.parameters())
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("loss_fn, message", [
    (lambda model, micro_batch: terms_of(model, micro_batch)[0].sum(), r"a tensor of shape \[\]"),
    (lambda model, micro_batch: 1.0, "a value of type float"),
    (lambda model, micro_batch: terms_of(model, micro_batch)[0].detach(), "losses without a gradient"),
    (lambda model, micro_batch: (terms_of(model, micro_batch)[0], torch.ones(2)), r"received \[2\] for \[5\]"),
])
def test_losses_of_another_form_are_refused(loss_fn, message):
    with pytest.raises(accrue.UsageError, match=message):
        privacy.ClippedGradients(Plain(), loss_fn, clip=1.0).add(texts())


def test_wrong_models_are_refused():
    for model, message in [(torch.zeros(3), "a torch.nn.Module as model"), (nn.ReLU(), "none with requires_grad"),
                           (nn.DataParallel(Plain()), "a DataParallel")]:
        with pytest.raises(accrue.UsageError, match=message):
            privacy.ClippedGradients(model, terms_of, clip=1.0)
    with pytest.raises(accrue.UsageError, match="above 0 as clip, received -1"):
        privacy.ClippedGradients(Plain(), terms_of, clip=-1.0)
    model = Plain()
    clipped = privacy.ClippedGradients(model, terms_of, clip=1.0)
    model.norm.requires_grad_(False)
    with pytest.raises(accrue.UsageError, match="the trained parameters that the model had at the beginning"):
        clipped.add(texts())


# Loops.

DATA = 24


def loop_of(model: nn.Module, *, noise: float | None = 0.0, key: bytes = b"a key", steps: int = 3, expected: int = 8, clip: float = 0.5, **others) -> privacy.PrivateLoop:
    return privacy.PrivateLoop(model, terms_of, privacy.Privacy(clip=clip, delta=1e-3, noise=noise, epsilon=others.pop("epsilon", None)), samples=DATA,
                               expected=expected, steps=steps, randomness=privacy.SeededRandomness(key), **others)


def run(loop: privacy.PrivateLoop, optimizer: torch.optim.Optimizer, data: Tensors) -> list[privacy.PrivateReport]:
    reports = []
    for window in loop:
        for begin in range(0, len(window), 3):
            loop.add(part(data, window[begin:begin + 3]))
        reports.append(loop.step(optimizer))
    return reports


def test_without_noise_a_window_steps_with_the_sum_over_the_expected_number():
    model, data = gpt2(), texts(DATA)
    loop = loop_of(model, steps=1, key=b"another key")
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    window = loop.window()
    assert len(window) != 8
    one_by_one = gradients_one_by_one(model, terms_of, part(data, window))
    for begin in range(0, len(window), 3):
        loop.add(part(data, window[begin:begin + 3]))
    report = loop.step(optimizer)
    moved = {name: before[name] - each.detach() for name, each in model.named_parameters()}
    assert is_close(moved, {name: each / 8 for name, each in clipped_sum(one_by_one, 0.5).items()})
    assert report.step == loop.steps == 1 and report.lr == 1.0 and report.grad_norm == pytest.approx(norm_of(moved), rel=1e-4)
    assert (report.unprotected.samples, report.unprotected.clipped) == (len(window), sum(norm_of(each) > 0.5 for each in one_by_one))
    assert all(each.grad is None for each in model.parameters()) and loop.end == "all 1 steps were taken"
    with pytest.raises(accrue.RefusedError, match="all 1 steps were taken"):
        loop.window()


def test_noise_has_the_stated_deviation_in_every_element_once():
    def moved(noise: float) -> torch.Tensor:
        torch.manual_seed(3)
        model = nn.Sequential(collections.OrderedDict(one=nn.Linear(WIDTH, 3000)))
        data = torch.randn(DATA, WIDTH)
        loop = privacy.PrivateLoop(model, lambda model, x: model(x).mean(1), privacy.Privacy(clip=0.5, delta=1e-3, noise=noise), samples=DATA, expected=8, steps=1,
                                   randomness=privacy.SeededRandomness(b"a key"))
        before = nn.utils.parameters_to_vector(model.parameters()).detach()
        for window in loop:
            loop.add(data[window])
            loop.step(torch.optim.SGD(model.parameters(), lr=1.0))
        return nn.utils.parameters_to_vector(model.parameters()).detach() - before

    difference = (moved(3.0) - moved(0.0)) * 8 / (3.0 * 0.5)
    assert difference.ne(0).all()
    assert float(difference.square().mean()) == pytest.approx(1, rel=5 * math.sqrt(2 / len(difference)))


def test_noise_covers_what_rounding_adds_to_a_clip():
    """The longest sum of one sample many times over, against the clip: 2^-10 of room."""
    model = gpt2()
    clipped = privacy.ClippedGradients(model, terms_of, clip=1e-2)
    micro_batch = part(texts(), [0] * 16)
    clipped.add(micro_batch)
    excess = norm_of(clipped.total()) / 16e-2 - 1
    assert abs(excess) < 2.0**-14
    name, without = next(iter(clipped.total().items()))
    clipped.add(micro_batch)
    sums = dict(clipped.take(0.0, privacy.SystemRandomness()))
    assert torch.allclose(sums[name], 2 * without) and clipped.samples == 0 and norm_of(clipped.total()) == 0
    noisy = privacy.clipping.ClippedSum(clipped.parameters, 1e-2).with_noise(1 + 2.0**-10, privacy.SeededRandomness(b"a"))
    assert torch.equal(dict(clipped.take(1.0, privacy.SeededRandomness(b"a")))[name], noisy[name])


def test_a_loop_goes_on_from_its_state_and_spends_once(tmp_path):
    data = texts(DATA)

    def begin(path=None):
        torch.manual_seed(5)
        model = Plain()
        return model, torch.optim.AdamW(model.parameters(), lr=0.1), loop_of(model, noise=1.0, ledger=path)

    straight, optimizer, loop = begin()
    reports = run(loop, optimizer, data)
    assert [report.step for report in reports] == [1, 2, 3] and reports[-1].epsilon == loop.epsilon > reports[0].epsilon > 0
    model, optimizer, loop = begin(tmp_path / "data.spent")
    for window in loop:
        loop.add(part(data, window))
        loop.step(optimizer)
        break
    kept = (model.state_dict(), optimizer.state_dict(), loop.state_dict())
    loop.window()  # it is given up, and spent
    loop.close()
    model, optimizer, loop = begin(tmp_path / "data.spent")
    for each, state in zip((model, optimizer, loop), kept):
        each.load_state_dict(state)
    assert loop.steps == 1 and loop.epsilon == pytest.approx(reports[1].epsilon), "two steps are spent, one is taken"
    again = run(loop, optimizer, data)
    assert [report.step for report in again] == [2, 3] and len((tmp_path / "data.spent").read_text().splitlines()) == 4
    assert is_close(dict(model.named_parameters()), dict(straight.named_parameters()), 1e-5)


def test_an_empty_window_is_a_step_of_noise():
    model = Plain()
    key = next(key for key in (str(number).encode() for number in range(10_000)) if not loop_of(model, key=key, expected=1).window())
    loop = loop_of(model, key=key, expected=1, noise=2.0, steps=1)
    before = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert run(loop, torch.optim.SGD(model.parameters(), lr=1.0), {})[0].unprotected.samples == 0
    moved = nn.utils.parameters_to_vector(model.parameters()).detach() - before
    assert float(moved.square().mean()) == pytest.approx((2.0 * 0.5)**2, rel=5 * math.sqrt(2 / len(moved)))


def test_loops_that_break_the_guarantee_are_refused():
    model, data = Plain(), texts(DATA)
    loop = loop_of(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(accrue.UsageError, match="a window before step, received none"):
        loop.step(optimizer)
    window = loop.window()
    loop.add(part(data, window))
    loop.add(part(data, window[:2]))
    with pytest.raises(accrue.UsageError, match=f"the {len(window)} samples of the window, received {len(window) + 2} losses"):
        loop.step(optimizer)
    loop.add(part(data, loop.window()))
    with pytest.raises(accrue.UsageError, match="one that trains others, too, whose gradients have no noise"):
        loop.step(torch.optim.SGD([*model.parameters(), nn.Parameter(torch.ones(1))], lr=1.0))
    loop.step(optimizer)
    with pytest.raises(accrue.UsageError, match="a window before add a micro-batch, received none"):
        loop.add(part(data, window))
    with pytest.raises(accrue.UsageError, match="at most the 24 samples as expected, received 25"):
        loop_of(model, expected=25)
    with pytest.raises(accrue.UsageError, match="at most epsilon 0.5 after 3 steps, received .* with noise 0.5; try noise="):
        loop_of(model, noise=0.5, epsilon=0.5)
    assert loop_of(model, noise=None, epsilon=2.0).privacy.noise > 0
    with pytest.raises(accrue.UsageError, match="a whole number of at least 1 as steps"):
        loop_of(model, steps=0)
    with pytest.raises(accrue.UsageError, match='terms of the unit "sample"'):
        privacy.PrivateLoop(model, terms_of, {}, samples=3, expected=1, steps=1)
