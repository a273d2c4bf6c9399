"""Fine-tuning that works: a model of prose that is trained here learns to write code by adapters alone.

finetune_golden.py ACCRUE: the command line. The held-out loss falls by what is stated here, the base stays as it was,
and the run, its export and transformers say the same greedy text. Exit status 77 where transformers is not there.
"""

import json
import math
import pydoc_data.topics
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "support"))
import skips  # noqa: E402

try:
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
# Texts that stay when this repository changes: what Python's own help says, and headers of libtorch.
PROSE = "".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
CODE = "".join(file.read_text() for file in sorted(Path(torch.__file__).parent.glob("include/c10/util/*.h")))
MOST = 200_000  # characters of each
FALL = 0.5  # nats a byte, at least, of held-out code
SHARE = 0.15  # of the weights, at most, are trained
CONFIG = """
[run]
out = "{out}"
steps = {steps}
threads = 1
[model]
{model}
context = 64
[data]
train = ["{train}"]
[batch]
samples = 16
micro = 8
[optim]
lr = {lr}
weight_decay = 0.0
"""
BASE = 'kind = "llama"\nlayers = 2\nheads = 4\nkv_heads = 2\nwidth = 64'


def accrue(folder, *words):
    return subprocess.run([ACCRUE, *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


class FinetuneGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.place.name)
        code = CODE[:MOST]
        held_out = len(code) // 10
        for name, text in (("prose.txt", PROSE[:MOST]), ("code.txt", code[held_out:]), ("held_out.txt", code[:held_out])):
            Path(cls.folder, name).write_text(text)
        cls.train("base", 200, BASE, "prose.txt", 1e-2)
        accrue(cls.folder, "export", "base", "--out", "models/base")
        cls.train("tuned", 320, 'from = "models/base"', "code.txt", 1e-2, "[lora]\nrank = 4\n")
        accrue(cls.folder, "export", "tuned", "--out", "models/tuned")

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    @classmethod
    def train(cls, out, steps, model, train, lr, more=""):
        config = CONFIG.format(out=out, steps=steps, model=model, train=train, lr=lr) + more
        Path(cls.folder, f"{out}.toml").write_text(config)
        accrue(cls.folder, "train", f"{out}.toml")

    def loss_of(self, model, data):
        return json.loads(accrue(self.folder, "eval", model, "--data", data, "--json"))["loss"]

    def test_held_out_loss_falls_by_what_is_stated(self):
        before, after = self.loss_of("models/base", "held_out.txt"), self.loss_of("tuned", "held_out.txt")
        print(f"held-out loss of code: {before:.3f} before, {after:.3f} after", file=sys.stderr)
        self.assertLess(before, math.log(256), "the base has learned something")
        self.assertLess(after, before - FALL)
        self.assertAlmostEqual(self.loss_of("models/tuned", "held_out.txt"), after, delta=1e-4)

    def test_the_example_fine_tunes(self):
        accrue(self.folder, "train", str(ROOT / "examples" / "base" / "finetune.toml"), "--model.from=models/base",
               "--model.context=64", "--data.train=held_out.txt", "--precision.compute=fp32", "--run.out=example",
               "--run.threads=1")
        self.assertLess(self.loss_of("example", "held_out.txt"), self.loss_of("models/base", "held_out.txt"))

    def test_adapters_alone_are_trained(self):
        accrue(self.folder, "export", "tuned", "--out", "models/adapter", "--format", "adapter")
        base = load_file(self.folder / "models" / "base" / "model.safetensors")
        adapter = load_file(self.folder / "models" / "adapter" / "adapter_model.safetensors")
        trained, all_weights = (sum(tensor.numel() for tensor in tensors.values()) for tensors in (adapter, base))
        self.assertLess(trained, SHARE * all_weights)
        tuned = load_file(self.folder / "models" / "tuned" / "model.safetensors")
        changed = {name for name, tensor in tuned.items() if not torch.equal(tensor, base[name])}
        self.assertEqual(changed, {name for name in base if "_proj" in name})

    def test_run_export_and_transformers_say_the_same_greedy_text(self):
        model = AutoModelForCausalLM.from_pretrained(self.folder / "models" / "tuned").eval()
        for prompt in ("/// The ", "namespace accrue"):
            ids = torch.tensor([list(prompt.encode())])
            with torch.no_grad():
                out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=40, do_sample=False)
            expected = bytes(out[0, ids.shape[1]:].tolist()).decode()
            for origin in ("tuned", "models/tuned"):
                said = json.loads(accrue(self.folder, "sample", origin, "--prompt", prompt, "--tokens", "40",
                                         "--temperature", "0", "--json"))
                self.assertEqual(said["text"], expected)


if __name__ == "__main__":
    ACCRUE = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
