"""TorchScript modules of several inputs, outputs and losses, and of a loss of their own: steps by PyTorch on whole
batches against accrue's accumulated ones.

script_golden.py ACCRUE: the command line. The modules are scripted here, and read lines of JSON whose fields are the
arguments of their methods, of unequal lengths. Exit status 77 where torch is not there.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Dict, NamedTuple, Tuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

try:
    import torch
    from safetensors.torch import load_file
    from torch import Tensor
    from torch.nn import functional as F

    from whole_batches import windows, worst_error
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
SAMPLES, BATCH, STEPS, VOCAB, WIDTH, CLASSES = 26, 7, 6, 11, 8, 3
LR, MOMENTUM = 0.2, 0.9
BOUND = 1e-12  # relative, of fp64 sums of some hundred terms and six steps
COLUMNS = ["input_ids", "attention_mask", "token_type_ids", "stars", "token_labels", "extent"]
COEFFICIENTS = {"stars": 1.0, "tokens": 0.25, "extent": 0.5}


def make_lines():
    generator = torch.Generator().manual_seed(4)

    def numbers(low, high, count):
        return torch.randint(low, high, (count,), generator=generator).tolist()

    lines = []
    for _ in range(SAMPLES):
        length = numbers(2, 9, 1)[0]
        labels = [-100 if skip == 0 else label
                  for skip, label in zip(numbers(0, 3, length), numbers(0, VOCAB, length))]
        lines.append({"input_ids": numbers(1, VOCAB, length), "token_type_ids": numbers(0, 2, length),
                      "stars": numbers(0, CLASSES, 1)[0], "token_labels": labels,
                      "extent": numbers(-8, 8, 1)[0] / 8 + 0.125, "unread": "text"})
    return lines


def tensors_of(line):
    """A sample by itself: no padding."""
    tensors = {name: torch.tensor([line[name]]) for name in COLUMNS if name != "attention_mask"}
    tensors["attention_mask"] = torch.ones_like(tensors["input_ids"])
    tensors["extent"] = tensors["extent"].double()
    return tensors


class Body(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(VOCAB, WIDTH)
        self.types = torch.nn.Embedding(2, WIDTH)
        self.mix = torch.nn.Linear(WIDTH, WIDTH)
        self.stars = torch.nn.Linear(WIDTH, CLASSES)
        self.tokens = torch.nn.Linear(WIDTH, VOCAB)
        self.extent = torch.nn.Linear(WIDTH, 1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tuple[Tensor, Tensor]:
        hidden = torch.tanh(self.mix(self.words(input_ids) + self.types(token_type_ids)))
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return hidden, (hidden * mask).sum(1) / mask.sum(1)


class WithDict(torch.nn.Module):
    """Outputs by name, of which the losses are the config's."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Dict[str, Tensor]:
        hidden, pooled = self.body(input_ids, attention_mask, token_type_ids)
        return {"logits": self.body.stars(pooled), "token_logits": self.body.tokens(hidden),
                "extent": self.body.extent(pooled)}


class Outputs(NamedTuple):
    logits: Tensor
    token_logits: Tensor
    extent: Tensor


class WithNamedTuple(WithDict):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Outputs:
        hidden, pooled = self.body(input_ids, attention_mask, token_type_ids)
        return Outputs(self.body.stars(pooled), self.body.tokens(hidden), self.body.extent(pooled))


class WithTuple(WithDict):
    def forward(self, input_ids: Tensor, attention_mask: Tensor,
                token_type_ids: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        hidden, pooled = self.body(input_ids, attention_mask, token_type_ids)
        return self.body.stars(pooled), self.body.tokens(hidden), self.body.extent(pooled)


class OwnLosses(torch.nn.Module):
    """The same losses, made by the module."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    @torch.jit.export
    def loss(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, stars: Tensor,
             token_labels: Tensor, extent: Tensor) -> Dict[str, Tuple[Tensor, Tensor]]:
        hidden, pooled = self.body(input_ids, attention_mask, token_type_ids)
        weights = self.loss_weights(stars, token_labels, extent)
        return {"stars": (F.cross_entropy(self.body.stars(pooled), stars, reduction="sum"), weights["stars"]),
                "tokens": (F.cross_entropy(self.body.tokens(hidden).flatten(0, 1), token_labels.flatten(),
                                           reduction="sum"), weights["tokens"]),
                "extent": ((self.body.extent(pooled).squeeze(-1) - extent).square().sum(), weights["extent"])}

    @torch.jit.export
    def loss_weights(self, stars: Tensor, token_labels: Tensor, extent: Tensor) -> Dict[str, Tensor]:
        return {"stars": torch.tensor(stars.numel()), "tokens": token_labels.ne(-100).sum(),
                "extent": torch.tensor(extent.numel())}

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        return self.body(input_ids, attention_mask, token_type_ids)[1]


class WithoutWeights(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()

    @torch.jit.export
    def loss(self, input_ids: Tensor) -> Dict[str, Tuple[Tensor, Tensor]]:
        total = self.body.words(input_ids).sum()
        return {"stars": (total, torch.tensor(1)), "tokens": (total, torch.tensor(2)),
                "extent": (total, torch.tensor(3))}

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.body.words(input_ids)


class OneLoss(torch.nn.Module):
    """forward returns the loss itself, over the tokens."""

    def __init__(self):
        super().__init__()
        self.body = Body()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor,
                token_labels: Tensor) -> Tuple[Tensor, Tensor]:
        hidden, _ = self.body(input_ids, attention_mask, token_type_ids)
        logits = self.body.tokens(hidden).flatten(0, 1)
        return F.cross_entropy(logits, token_labels.flatten(), reduction="sum"), token_labels.ne(-100).sum()


class MeanOfMicroBatch(OneLoss):
    """What many modules do: the mean of whatever they are given, which counts as one."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor,
                token_labels: Tensor) -> Tuple[Tensor, Tensor]:
        hidden, _ = self.body(input_ids, attention_mask, token_type_ids)
        logits = self.body.tokens(hidden).flatten(0, 1)
        return F.cross_entropy(logits, token_labels.flatten()), torch.tensor(1)


class MeanAlone(OneLoss):
    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor,
                token_labels: Tensor) -> Tensor:
        hidden, _ = self.body(input_ids, attention_mask, token_type_ids)
        return F.cross_entropy(self.body.tokens(hidden).flatten(0, 1), token_labels.flatten())


def heads(logits, token_logits, extent):
    return f"""heads = [
        {{name = "stars", output = "{logits}", target = "stars"}},
        {{name = "tokens", output = "{token_logits}", target = "token_labels", coefficient = 0.25}},
        {{name = "extent", loss = "mse", output = "{extent}", target = "extent", coefficient = 0.5}}]"""


NAMED = heads("logits", "token_logits", "extent")
OWN = 'method = "loss"\nheads = [{name = "stars"}, {name = "tokens", coefficient = 0.25}, ' \
      '{name = "extent", coefficient = 0.5}]'
# Each with [loss], and the losses that it comes to.
MODULES = {
    "dict": (WithDict, NAMED, COEFFICIENTS),
    "named tuple": (WithNamedTuple, NAMED, COEFFICIENTS),
    "tuple": (WithTuple, heads("0", "1", "2"), COEFFICIENTS),
    "own losses": (OwnLosses, OWN, COEFFICIENTS),
    "one loss": (OneLoss, 'method = "forward"', {"tokens": 1.0}),
}


def make_module(kind):
    torch.manual_seed(2)
    return kind()


def mean_loss(body, lines, coefficients):
    """The sum over whole batches, sample by sample, divided once."""
    sums = {name: [0.0, 0] for name in coefficients}
    for line in lines:
        one = tensors_of(line)
        hidden, pooled = body(one["input_ids"], one["attention_mask"], one["token_type_ids"])
        terms = {
            "stars": (F.cross_entropy(body.stars(pooled), one["stars"], reduction="sum"), 1),
            "tokens": (F.cross_entropy(body.tokens(hidden)[0], one["token_labels"][0], reduction="sum"),
                       one["token_labels"].ne(-100).sum().item()),
            "extent": ((body.extent(pooled)[0] - one["extent"]).square().sum(), 1)}
        for name in coefficients:
            sums[name][0] = sums[name][0] + terms[name][0]
            sums[name][1] += terms[name][1]
    return sum(coefficients[name] * total / weight for name, (total, weight) in sums.items())


def trained_by_torch(kind, lines, coefficients):
    module = make_module(kind).double()
    used = [p for p in module.parameters()]
    optimizer = torch.optim.SGD(used, lr=LR, momentum=MOMENTUM)
    for _, window in zip(range(STEPS), windows(SAMPLES, BATCH)):
        optimizer.zero_grad()
        mean_loss(module.body, lines[window], coefficients).backward()
        optimizer.step()
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


class Turned(torch.nn.Module):
    """Reads a complex factor, a table of places and a mask, none of which is a floating-point number."""

    def __init__(self, trained=False):
        super().__init__()
        torch.manual_seed(3)
        self.words = torch.nn.Embedding(VOCAB, WIDTH)
        self.extent = torch.nn.Linear(WIDTH, 1)
        factor = torch.complex(torch.ones(WIDTH), 3 * torch.ones(WIDTH))
        if trained:
            self.factor = torch.nn.Parameter(factor)
        else:
            self.register_buffer("factor", factor)
        self.register_buffer("places", torch.arange(WIDTH).flip(0))
        self.register_buffer("mask", torch.arange(WIDTH) % 2 == 0)

    @torch.jit.export
    def loss(self, input_ids: Tensor, attention_mask: Tensor, extent: Tensor) -> Tuple[Tensor, int]:
        pooled = (self.words(input_ids) * attention_mask.unsqueeze(-1)).sum(1)
        turned = (pooled[:, self.places] * self.factor).abs()
        turned = torch.where(self.mask, turned, turned * 2)
        return (self.extent(turned).squeeze(-1) - extent).square().sum(), extent.numel()


def config(folder, name, loss):
    return f"""
[run]
out = "{folder / name}"
steps = {STEPS}
threads = 1
[model]
kind = "torchscript"
from = "{folder / (name + '.pt')}"
[data]
train = ["{folder / 'lines.jsonl'}"]
columns = {json.dumps(COLUMNS)}
order = "sequential"
[batch]
samples = {BATCH}
[precision]
compute = "fp64"
[loss]
{loss}
[optim]
kind = "sgd"
lr = {LR}
momentum = {MOMENTUM}
weight_decay = 0
clip = 0
schedule = {{kind = "constant"}}
[observe]
progress = "off"
"""


class ScriptGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.lines = make_lines()
        (cls.folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in cls.lines))
        cls.known = {}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def write(self, name, kind, loss, module=None):
        name = name.replace(" ", "-")
        torch.jit.script(module or make_module(kind)).save(str(self.folder / f"{name}.pt"))
        path = self.folder / f"{name}.toml"
        path.write_text(config(self.folder, name, loss))
        return path

    def accrue(self, *words, status=0, environment=None):
        result = subprocess.run([ACCRUE, *map(str, words)], capture_output=True, text=True,
                                env={**os.environ, **(environment or {})})
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def trained(self, path, out, *overrides, ranks=1):
        out = self.folder / out.replace(" ", "-")
        words = [ACCRUE, "train", str(path), f"--run.out={out}", *overrides]
        port = ReservedPort()
        meeting = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port.number)}
        each = [{**meeting, "RANK": str(rank), "LOCAL_RANK": str(rank)} if ranks > 1 else {} for rank in range(ranks)]
        processes = [subprocess.Popen(words, env={**os.environ, **one}, stderr=subprocess.PIPE, text=True)
                     for one in each]
        for process in processes:
            _, errors = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, errors)
        return load_file(out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")

    def trained_once(self, name, micro):
        """The same run of one of MODULES, in the folder NAME-MICRO, for all tests that read it."""
        if (name, micro) not in self.known:
            kind, loss, _ = MODULES[name]
            self.known[name, micro] = self.trained(self.write(name, kind, loss), f"{name}-{micro}", f"--batch.micro={micro}")
        return self.known[name, micro]

    def test_any_split_ends_where_whole_batches_end(self):
        for name, (kind, _, coefficients) in MODULES.items():
            expected = trained_by_torch(kind, self.lines, coefficients)
            for micro in (1, 3, BATCH):
                with self.subTest(name, micro=micro):
                    self.assertLess(worst_error(self.trained_once(name, micro), expected), BOUND)

    def test_two_ranks_end_there_too(self):
        for name in ("dict", "own losses"):
            with self.subTest(name):
                kind, loss, coefficients = MODULES[name]
                path = self.write(name, kind, loss)
                actual = self.trained(path, f"{name}-ranks", "--batch.micro=2", ranks=2)
                self.assertLess(worst_error(actual, trained_by_torch(kind, self.lines, coefficients)), BOUND)

    def test_losses_are_told_by_name(self):
        self.trained_once("dict", 3)
        steps = map(json.loads, (self.folder / "dict-3" / "metrics.jsonl").read_text().splitlines())
        first = next(step for step in steps if "loss" in step)
        body = make_module(WithDict).double().body
        for name, coefficient in COEFFICIENTS.items():
            expected = mean_loss(body, self.lines[:BATCH], {name: 1.0}).item()
            self.assertAlmostEqual(first["losses"][name], expected, delta=1e-10)

    def test_verify_proves_and_sees_a_mean_of_micro_batches(self):
        for name in ("dict", "own losses", "one loss"):
            with self.subTest(name):
                kind, loss, _ = MODULES[name]
                self.accrue("verify", self.write(name, kind, loss), "--batch.micro=3")
        planted = self.write("mean of micro-batch", MeanOfMicroBatch, 'method = "forward"')
        self.accrue("verify", planted, "--batch.micro=3", status=3)
        wrong = self.trained(planted, "planted", "--batch.micro=3")
        self.assertGreater(worst_error(wrong, trained_by_torch(OneLoss, self.lines, {"tokens": 1.0})), 1e-3)

    def test_a_run_goes_on_where_it_was(self):
        straight = self.trained_once("own losses", 3)
        path = self.write("own losses", OwnLosses, OWN)
        self.accrue("train", path, f"--run.out={self.folder / 'broken'}", "--batch.micro=3", "--run.steps=2")
        resumed = self.trained(path, "broken", "--batch.micro=3", "--resume")
        for name, tensor in straight.items():
            self.assertTrue(torch.equal(tensor, resumed[name]), name)

    def test_complex_numbers_whole_numbers_and_truth_values_stay_what_they_are(self):
        module = Turned()
        path = self.write("turned", None, 'method = "loss"', module)
        columns = '--data.columns=["input_ids", "attention_mask", "extent"]'

        def total_of(some):
            samples = [tensors_of(line) for line in self.lines[:BATCH]]
            return sum(some.loss(one["input_ids"], one["attention_mask"], one["extent"])[0].item() for one in samples)

        for compute, bound in (("fp32", 1e-6), ("fp64", 1e-6)):
            out = self.folder / f"turned-{compute}"
            self.accrue("train", path, f"--run.out={out}", columns, f"--precision.compute={compute}", "--batch.micro=3", "--optim.lr=1e-3",
                        "--run.steps=2")
            told = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            first = next(line for line in told if "loss" in line)
            self.assertLess(abs(first["loss"] / (total_of(module) / BATCH) - 1), bound)
            real = Turned()
            real.factor = real.factor.real
            self.assertGreater(abs(total_of(real) / total_of(module) - 1), 0.01)
            self.accrue("train", path, f"--run.out={out}", columns, f"--precision.compute={compute}", "--batch.micro=3", "--optim.lr=1e-3",
                        "--run.steps=4", "--resume")
            self.accrue("export", out, "--out", self.folder / f"export-{compute}")
            exported = torch.jit.load(str(self.folder / f"export-{compute}" / "model.pt"))
            for name, buffer in module.named_buffers():
                self.assertTrue(torch.equal(dict(exported.named_buffers())[name], buffer), name)
        self.accrue("verify", path, columns, "--batch.micro=3")
        self.assertIn("'factor' of ComplexFloat", self.accrue(
            "train", self.write("trained", None, 'method = "loss"', Turned(trained=True)), columns, status=2).stderr)

    def test_a_module_that_a_run_folder_names_is_the_one_of_its_training(self):
        path = self.write("own losses", OwnLosses, OWN)
        out = self.folder / "trusted"
        self.accrue("train", path, f"--run.out={out}", "--run.steps=1")
        self.accrue("export", out, "--out", self.folder / "first")
        again = [f"--run.out={self.folder / 'again'}", "--dry-run"]
        self.accrue("train", "--repeat", out, *again)
        torch.jit.script(make_module(OwnLosses)).save(str(self.folder / "other.pt"))
        changed = (out / "config.toml").read_text().replace("own-losses.pt", "other.pt")
        (out / "config.toml").write_text(changed)
        self.assertIn("--trust-module", self.accrue("export", out, "--out", self.folder / "second", status=2).stderr)
        self.assertIn("--trust-module", self.accrue("predict", out, self.folder, status=2).stderr)
        refusal = self.accrue("sample", out, "--prompt", "a", status=2).stderr
        self.assertIn("a run of a language model", refusal)
        self.assertNotIn("--trust-module", refusal, "it has no such option, as it loads no module")
        self.accrue("export", out, "--out", self.folder / "third", "--trust-module")
        record = json.loads((out / "run.json").read_text())
        del record["checksum"]  # else it would be refused as damaged
        record["config"]["model"]["from"] = str(self.folder / "other.pt")
        (out / "run.json").write_text(json.dumps(record))
        self.assertIn("--trust-module", self.accrue("train", "--repeat", out, *again, status=2).stderr)
        self.accrue("train", "--repeat", out, *again, "--trust-module")
        del record["module"]
        (out / "run.json").write_text(json.dumps(record))
        self.assertIn("earlier versions", self.accrue("export", out, "--out", self.folder / "fourth", status=2).stderr)

    def test_refusals_say_what_was_found_and_what_to_write(self):
        def refused(name, kind, loss, *overrides):
            return self.accrue("train", self.write(name, kind, loss), *overrides, status=2).stderr

        said = refused("mean", MeanAlone, 'method = "forward"')
        self.assertIn("(sum, weight)", said)
        self.assertIn("-> Tensor", said)
        self.assertIn("reduction='sum'", said)
        self.assertIn("loss.heads", refused("plain", WithDict, ""))
        said = refused("no output", WithDict, NAMED.replace("token_logits", "nothing"))
        self.assertIn("extent, logits and token_logits", said)
        self.assertIn('output "nothing"', said)
        said = refused("no column", WithDict, NAMED, '--data.columns=["input_ids", "stars"]')
        self.assertIn('"attention_mask"', said)
        self.assertIn("input_ids and stars", said)
        self.assertIn('"gone"', refused("no target", WithDict, NAMED.replace('target = "stars"', 'target = "gone"')))
        self.assertIn("loss_weights", refused("no weights", WithoutWeights, OWN))


if __name__ == "__main__":
    ACCRUE = str(Path(sys.argv.pop(1)).resolve())
    unittest.main(verbosity=2)
