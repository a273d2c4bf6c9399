"""What `accrue sample` says with and without a cache's turns, beside transformers after export: the same greedy text.

sample_golden.py ACCRUE: the command line. Exit status 77 where transformers is not there.
"""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402

try:
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
TEMPLATE = ("{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
CONFIG = """
[run]
out = "run"
steps = 40
threads = 1
[model]
kind = "{kind}"
layers = 2
heads = 2
width = 32
context = 64
[data]
train = ["text.jsonl"]
format = "chat"
tokenizer = "words"
[batch]
samples = 8
micro = 8
[optim]
lr = 1e-2
"""


def accrue(folder, *words, given=None):
    return subprocess.run([ACCRUE, *words], cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, input=given).stdout


def write_data(folder):
    lines = [f"item {i} of {i % 7} things" for i in range(200)]
    Path(folder, "text.jsonl").write_text("".join(json.dumps({"messages": [
        {"role": "user", "content": line}, {"role": "assistant", "content": f"it is {line}"}]}) + "\n" for line in lines))
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=300, show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                        special_tokens=["<|user|>", "<|assistant|>", "<|system|>",
                                                                        "<|end|>"]))
    words = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>")
    words.chat_template = TEMPLATE
    words.save_pretrained(Path(folder, "words"))


class SampleGolden(unittest.TestCase):
    def setUp(self):
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def trained(self, folder, kind):
        write_data(folder)
        Path(folder, "run.toml").write_text(CONFIG.format(kind=kind))
        accrue(folder, "train", "run.toml")
        accrue(folder, "export", "run", "--out", "model")
        model = AutoModelForCausalLM.from_pretrained(Path(folder, "model")).eval()
        return model, AutoTokenizer.from_pretrained(Path(folder, "model"))

    def theirs(self, model, tokenizer, prompt, tokens):
        ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                                 eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.eos_token_id)
        return tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True)

    def test_runs_and_exported_folders_say_what_transformers_says(self):
        for kind in ("gpt2", "llama"):
            with self.subTest(kind), tempfile.TemporaryDirectory() as folder:
                model, tokenizer = self.trained(folder, kind)
                for prompt in ("item 12 of", "it is item"):
                    expected = self.theirs(model, tokenizer, prompt, 30)
                    for origin in ("run", "model"):
                        said = json.loads(accrue(folder, "sample", origin, "--prompt", prompt, "--tokens", "30",
                                                 "--temperature", "0", "--json"))
                        self.assertEqual(said["text"], expected)

    def test_conversations_say_what_transformers_says(self):
        with tempfile.TemporaryDirectory() as folder:
            model, tokenizer = self.trained(folder, "llama")
            messages, expected = [{"role": "system", "content": "be"}], []
            for line in ("item 3 of 3 things", "item 4"):
                messages.append({"role": "user", "content": line})
                prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
                expected.append(self.theirs(model, tokenizer, prompt, 12))
                messages.append({"role": "assistant", "content": expected[-1]})
            said = accrue(folder, "sample", "model", "--chat", "--system", "be", "--tokens", "12", "--temperature", "0",
                          given="item 3 of 3 things\n\nitem 4\n")
            self.assertEqual(said, "".join(text + "\n" for text in expected))


if __name__ == "__main__":
    ACCRUE = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
