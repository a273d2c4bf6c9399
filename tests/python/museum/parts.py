"""Shared by the exhibits: a small language model, a batch of sequences of unequal length, and their loss."""

import torch
from torch import nn

import accrue

WORDS, LENGTH, SAMPLES, IGNORED = 23, 12, 10, -100


class Model(nn.Module):
    """Predicts each word from the word before it."""

    def __init__(self, normalisation: nn.Module | None = None):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.hidden = nn.Linear(16, 24)
        self.normalisation = normalisation or nn.Identity()
        self.head = nn.Linear(24, WORDS)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return self.head(torch.tanh(self.normalisation(self.hidden(self.embedding(input_ids)))))


def model(**changes) -> Model:
    torch.manual_seed(3)
    return Model(**changes)


def batch(samples: int = SAMPLES, even: bool = False) -> dict[str, torch.Tensor]:
    """Returns sequences in which different numbers of labels count; with `even`, all labels count."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(WORDS, (samples, LENGTH), generator=generator)
    labels = torch.randint(WORDS, (samples, LENGTH), generator=generator)
    for sample in range(samples):
        labels[sample, LENGTH if even else 1 + (sample * sample + 2) % LENGTH:] = IGNORED
    return {"input_ids": ids, "labels": labels}


def cross_entropy(net: nn.Module, micro: dict, reduction: str) -> torch.Tensor:
    logits = net(micro["input_ids"], labels=micro["labels"])
    return nn.functional.cross_entropy(logits.flatten(0, 1), micro["labels"].flatten(), ignore_index=IGNORED, reduction=reduction)


def mean(net: nn.Module, micro: dict) -> torch.Tensor:
    """Returns the loss that a typical loop uses: the mean over a micro-batch's words."""
    return cross_entropy(net, micro, "mean")


def words(micro: dict) -> int:
    return int((micro["labels"] != IGNORED).sum())


def loss_fn(net: nn.Module, micro: dict) -> accrue.Loss:
    """Returns the loss that the window is meant to be the mean of."""
    return accrue.Loss(cross_entropy(net, micro, "sum"), words(micro))


def micro_batches(count: int = 4, even: bool = False) -> list[dict[str, torch.Tensor]]:
    whole = batch(3 * count, even)
    return [accrue.batch_slice(whole, 3 * place, 3 * place + 3) for place in range(count)]


def proved(loop, **options) -> accrue.Report:
    """Returns the report of verify_loop() for a loop over micro-batches of 3 samples."""
    return accrue.verify_loop(model(), batch(**options), loss_fn, loop, micro_batch=3)


class Window:
    """A model with its optimizer and the micro-batches of one window, for exhibits that are watched."""

    def __init__(self, count: int = 4, even: bool = True, optimizer=None):
        self.model = model()
        self.optimizer = optimizer(self.model) if optimizer else torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.micro_batches = micro_batches(count, even)

    def watch(self, **options) -> accrue.Watch:
        return accrue.watch(self.model, self.optimizer, loss_fn, **options)
