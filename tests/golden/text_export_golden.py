"""What an exported model says by transformers' generate(), beside `accrue sample` of the run and of the export: the same greedy text.

text_export_golden.py ACCRUE: the command line. Folders, tokenizers, templates, generation configs, data and kinds of export are drawn at
random. Exit status 77 where transformers or PEFT are not there.
"""

import json
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import golden_form  # noqa: E402
import skips  # noqa: E402
from generation_draws import drawn_rules  # noqa: E402

try:
    import torch
    import transformers
    from peft import PeftModel
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
EXPORTS = golden_form.share(100, 50)
TOKENS = 20
VOCAB = 160
CONTEXT = 96
FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral", "GPT2")
PROMPTS = ("the fox", "who sees the lazy dog")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>")
TEMPLATES = {
    "turns": "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "a line before the end": "{% for m in messages %}<|im_start|>{{ m['role'] }} {{ m['content'] }}\n<|im_end|>{% endfor %}"
                             "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}",
    "end of text": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{% if m['role'] == 'assistant' %}<|endoftext|>{% endif %}"
                   "\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}",
    "eos_token": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}{{ eos_token }}{% endfor %}"
                 "{% if add_generation_prompt %}assistant: {% endif %}",
}
CONFIG = """
[run]
out = "run"
steps = {steps}
threads = 1
[model]
{model}
context = {context}
[data]
train = ["{data}"]
format = "{format}"
{tokenizer}
[batch]
samples = 4
micro = 4
[optim]
lr = 1e-2
{lora}
"""


def accrue(folder, *words):
    return subprocess.run([ACCRUE, *words], cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sentences():
    return [f"{who} {sees} the {what}" for who in ("the fox", "a dog", "the lazy dog") for sees in ("sees", "likes", "hears")
            for what in ("dog", "fox", "cow", "lazy dog")]


def write_data(folder):
    lines = sentences()
    Path(folder, "chat.jsonl").write_text("".join(json.dumps({"messages": [
        {"role": "user", "content": line}, {"role": "assistant", "content": f"who {line[4:]}"}]}) + "\n" for line in lines))
    Path(folder, "pairs.jsonl").write_text("".join(json.dumps({"prompt": line[:8], "completion": line[8:]}) + "\n"
                                                   for line in lines))
    Path(folder, "text.txt").write_text("\n".join(lines * 4))


class Drawn:
    """One export: what it began with, what it was trained on, and in which form it was written."""

    def __init__(self, number):
        draws = self.draws = random.Random(number)
        self.number = number
        self.scratch = draws.random() < 0.3
        self.family = draws.choice(("gpt2", "llama")) if self.scratch else draws.choice(FAMILIES)
        self.template = draws.choice((None, *TEMPLATES))
        self.data = draws.choice(("chat", "chat", "pairs", "text")) if self.template else draws.choice(("pairs", "text"))
        self.lora = not self.scratch and draws.random() < 0.4
        self.form = "adapter" if self.lora and draws.random() < 0.5 else "hf"
        # Where the tokenizer names its end, and whether it names it at all.
        self.end = draws.choice(("tokenizer_config.json", "special_tokens_map.json", "model"))
        self.pad = draws.random() < 0.3
        self.class_name = draws.choice(("PreTrainedTokenizerFast", None)) if self.family in ("gpt2", "llama", "GPT2", "Llama") \
            else "PreTrainedTokenizerFast"

    def __str__(self):
        return ", ".join(f"{key}={value}" for key, value in vars(self).items() if key != "draws")

    def write_tokenizer(self, folder):
        """Ids of the special tokens by their texts."""
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        spoken = [*sentences(), "user assistant: who\n"]
        made.train_from_iterator(spoken, trainers.BpeTrainer(vocab_size=120, show_progress=False, special_tokens=list(SPECIAL)))
        folder.mkdir(exist_ok=True)
        made.save(str(folder / "tokenizer.json"))
        settings = {"tokenizer_class": self.class_name} if self.class_name else {}
        if self.end == "tokenizer_config.json":
            settings["eos_token"] = "<|endoftext|>"
        if self.end == "special_tokens_map.json":
            (folder / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": "<|endoftext|>"}}))
        if self.pad:
            settings["pad_token"] = "<pad>"
        if self.template and self.draws.random() < 0.5:
            settings["chat_template"] = TEMPLATES[self.template]
        elif self.template:
            (folder / "chat_template.jinja").write_text(TEMPLATES[self.template])
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        return {text: made.token_to_id(text) for text in SPECIAL}

    def write_base(self, folder, ids):
        torch.manual_seed(self.number)
        shape = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": ids["<|endoftext|>"], "pad_token_id": None}
        if self.family == "GPT2":
            shape.update(n_positions=CONTEXT, n_embd=32, n_layer=1, n_head=2, embd_pdrop=0, resid_pdrop=0, attn_pdrop=0)
        else:
            shape.update(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                         max_position_embeddings=CONTEXT)
        name = self.family
        config = getattr(transformers, name + "Config")(**shape)
        model = getattr(transformers, name + ("LMHeadModel" if name == "GPT2" else "ForCausalLM"))(config)
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        written = self.draws.choice((None, {}, {"temperature": 0.6, "do_sample": True}, "rules"))
        if written == "rules":
            written = drawn_rules(self.draws, VOCAB, 8, share=0.15)
            written.pop("forced_bos_token_id", None)
        if written is not None:
            (folder / "generation_config.json").write_text(json.dumps({**written, "eos_token_id": ids["<|endoftext|>"]}))

    def train(self, folder):
        ids = self.write_tokenizer(folder / "base")
        if self.scratch:
            model = f'kind = "{self.family}"\nlayers = 1\nheads = 2\nwidth = 32'
        else:
            self.write_base(folder / "base", ids)
            model = 'from = "base"'
        format, data = {"chat": ("chat", "chat.jsonl"), "pairs": ("jsonl", "pairs.jsonl"), "text": ("text", "text.txt")}[self.data]
        folder.joinpath("run.toml").write_text(CONFIG.format(
            steps=60, model=model, context=CONTEXT, data=data, format=format, tokenizer='tokenizer = "base"' if self.scratch else "",
            lora="[lora]\nrank = 4\n" if self.lora else ""))
        accrue(folder, "train", "run.toml", "--quiet")
        accrue(folder, "export", "run", "--out", "model", "--format", self.form)


def loaded(drawn, folder):
    """By transformers, and by PEFT as the card of adapters does it."""
    if drawn.form == "hf":
        return AutoModelForCausalLM.from_pretrained(folder / "model").eval(), AutoTokenizer.from_pretrained(folder / "model")
    card = (folder / "model" / "README.md").read_text()
    code, = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    names = {}
    exec(compile(code.replace("PATH_TO_THIS_FOLDER", str(folder / "model")).replace("PATH_TO_THE_BASE", str(folder / "base")),
                 "README.md", "exec"), names)
    assert isinstance(names["model"], PeftModel)
    return names["model"].eval(), names["tokenizer"]


def generated(model, ids):
    with torch.no_grad():
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
    return out[0, ids.shape[1]:]


def theirs(model, ids, tokenizer):
    return tokenizer.decode(generated(model, ids), skip_special_tokens=True)


class TextExportGolden(unittest.TestCase):
    def setUp(self):
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def ours(self, folder, origin, prompt, *more):
        words = ("sample", origin, "--prompt", prompt, "--tokens", str(TOKENS), "--temperature", "0", "--json", *more)
        return json.loads(accrue(folder, *words).stdout)

    def questions(self, drawn, tokenizer):
        """Prompts with the words that `accrue sample` gets for them, and their ids by transformers."""
        for prompt in PROMPTS:
            yield (prompt,), tokenizer(prompt, return_tensors="pt")["input_ids"]
            if drawn.template:
                messages = [{"role": "user", "content": prompt}]
                yield (prompt, "--chat"), tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt",
                                                                        return_dict=True)["input_ids"]

    def compare(self, drawn, folder):
        """How many texts ended, and in how many of these transformers goes on if another end is stated."""
        model, tokenizer = loaded(drawn, folder)
        if drawn.template:
            self.assertIn(f"```jinja\n{TEMPLATES[drawn.template]}\n```", (folder / "model" / "README.md").read_text())
        ended = goes_on = 0
        for words, ids in self.questions(drawn, tokenizer):
            expected = theirs(model, ids, tokenizer)
            for origin in ("run",) if drawn.form == "adapter" else ("run", "model"):
                said = self.ours(folder, origin, *words)
                self.assertEqual(said["text"], expected, (origin, words))
            if said["stopped"] != "eos":
                continue
            ended += 1
            count = len(generated(model, ids))
            stated = model.generation_config
            model.generation_config = GenerationConfig(**{**stated.to_dict(), "eos_token_id": model.config.vocab_size - 1})
            goes_on += len(generated(model, ids)) > count
            model.generation_config = stated
        return ended, goes_on

    def test_exports_say_what_accrue_says(self):
        ended = goes_on = 0
        for number in range(EXPORTS):
            drawn = Drawn(number)
            with self.subTest(str(drawn)), tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                write_data(folder)
                drawn.train(folder)
                more_ended, more_go_on = self.compare(drawn, folder)
                ended, goes_on = ended + more_ended, goes_on + more_go_on
        self.assertGreater(ended, EXPORTS // 2, "texts that do not end show nothing")
        self.assertGreater(goes_on, ended // 2, "without its end tokens a model goes on")


if __name__ == "__main__":
    ACCRUE = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
