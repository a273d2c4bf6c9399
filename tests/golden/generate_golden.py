"""Compares the tokens that accrue adds to a prompt with those that transformers' generate() adds, and what may be drawn with
transformers' logits processors.

generate_golden.py HELPER: the C++ half (generate_golden.cpp). Exit status 77 where transformers is not there.
"""

import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import golden_form  # noqa: E402
import skips  # noqa: E402
from generation_draws import drawn_rules  # noqa: E402
from request_program import RequestProgram  # noqa: E402

try:
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel
    from transformers.generation import (LogitsProcessorList, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                                         TopKLogitsWarper, TopPLogitsWarper)
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

import llama_golden  # noqa: E402

HELPER = None
TOKENS = 36
PROMPT = 20  # more than the windows and original contexts of the families; with TOKENS within the context
PLAIN = (1.0, 0, 1.0, 1.0)  # temperature, top_k, top_p, repetition_penalty
PROBABILITY_BOUND = 1e-12
VOCAB = 12  # of logits for drawn rules: so few that sequences come again
CONFIGS = golden_form.share(400, 8)  # of drawn rules, each with logits
TEXTS = golden_form.share(100, 10)  # of drawn rules, each with a text that a model goes on with


def gpt2():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=199, n_positions=64, n_embd=48, n_layer=3, n_head=4, bos_token_id=None,
                                       eos_token_id=None, attn_implementation="eager"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.08 * torch.randn_like(parameter))
    return model


def request(folder, ids, options=PLAIN, **tensors):
    save_file({"ids": ids.flatten(), "options": torch.tensor(options, dtype=torch.float64), **tensors},
              Path(folder, "request.safetensors"))


class GenerateGolden(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        logging.set_verbosity_error()

    def models(self):
        yield "gpt2", gpt2()
        for family in llama_golden.FAMILIES:
            yield family, llama_golden.tiny_model(family, torch.float32)

    def ours(self, folder, ids, penalty):
        request(folder, ids, (*PLAIN[:3], penalty), tokens=torch.tensor(TOKENS))
        HELPER.run("continue", str(folder), "fp32")
        return load_file(Path(folder, "ours.safetensors"))["ids"].tolist()

    def theirs(self, model, ids, penalty):
        with torch.no_grad():
            return model.eval().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
                                         use_cache=True, repetition_penalty=penalty, pad_token_id=0)[0].tolist()

    def test_greedy_tokens_of_every_family(self):
        for name, model in self.models():
            for penalty in (1.0, 1.3):
                with self.subTest(name, penalty=penalty), tempfile.TemporaryDirectory() as folder:
                    model.save_pretrained(folder)
                    ids = torch.randint(0, 199, (1, PROMPT))
                    expected = self.theirs(model, ids, penalty)
                    self.assertEqual(len(expected), PROMPT + TOKENS)
                    self.assertEqual(self.ours(folder, ids, penalty), expected)

    def greedy(self, model, folder, config, ids):
        """The tokens by generate() and by ours, without an end."""
        Path(folder, "generation_config.json").write_text(json.dumps(config))
        model.generation_config = GenerationConfig.from_pretrained(folder)
        ends = config["eos_token_id"] if isinstance(config["eos_token_id"], list) else [config["eos_token_id"]]
        with torch.no_grad():
            theirs = model.eval().generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False,
                                           pad_token_id=0)[0].tolist()
        if len(theirs) > ids.shape[1] and theirs[-1] in ends:
            theirs.pop()
        return theirs, self.ours(folder, ids, 1.0)

    def test_greedy_tokens_by_drawn_rules(self):
        plain, other = gpt2(), 0
        with tempfile.TemporaryDirectory() as folder:
            plain.save_pretrained(folder)
            for number in range(TEXTS):
                draws = random.Random(number)
                ids = torch.randint(0, 199, (1, draws.choice((1, 2, 9, PROMPT))))
                config = drawn_rules(draws, 199, ids.shape[1])
                with self.subTest(number, config=config):
                    theirs, ours = self.greedy(plain, folder, config, ids)
                    self.assertEqual(ours, theirs)
                    without, _ = self.greedy(plain, folder, {"eos_token_id": config["eos_token_id"]}, ids)
                    other += theirs != without
        self.assertGreater(other, TEXTS // 2, "rules that change nothing show nothing")

    def test_another_prompt_has_other_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            model = gpt2()
            model.save_pretrained(folder)
            ids = torch.randint(0, 199, (1, PROMPT))
            expected = self.theirs(model, ids, 1.0)
            ids[0, -1] = (ids[0, -1] + 1) % 199
            self.assertNotEqual(self.ours(folder, ids, 1.0)[PROMPT:], expected[PROMPT:])

    def processed(self, logits, ids, temperature, top_k, top_p, penalty):
        """transformers' distribution, by its own processors in its own order."""
        steps = LogitsProcessorList()
        if penalty != 1:
            steps.append(RepetitionPenaltyLogitsProcessor(penalty))
        if temperature != 1:
            steps.append(TemperatureLogitsWarper(temperature))
        if top_k:
            steps.append(TopKLogitsWarper(top_k))
        if top_p < 1:
            steps.append(TopPLogitsWarper(top_p))
        return steps(ids, logits.unsqueeze(0)).softmax(-1)[0]

    def test_what_may_be_drawn(self):
        for options in (PLAIN, (0.7, 0, 1.0, 1.0), (1.0, 20, 1.0, 1.0), (1.0, 0, 0.9, 1.0), (1.0, 0, 0.05, 1.0),
                        (1.0, 0, 1.0, 1.4), (1.3, 50, 0.8, 1.2), (0.5, 5, 0.99, 0.8)):
            with self.subTest(options), tempfile.TemporaryDirectory() as folder:
                logits = 3 * torch.randn(300, dtype=torch.float64)
                ids = torch.randint(0, 300, (1, 40))
                request(folder, ids, options, logits=logits)
                HELPER.run("choices", folder)
                ours = load_file(Path(folder, "ours.safetensors"))
                expected = self.processed(logits, ids, *options)
                self.assertEqual(set(ours["ids"].tolist()), set(expected.nonzero().flatten().tolist()))
                self.assertLess((ours["probabilities"] - expected[ours["ids"]]).abs().max().item(), PROBABILITY_BOUND)
                self.assertTrue((ours["probabilities"].diff() <= 0).all())

    def ruled(self, model, config, logits, ids, given, most):
        """transformers' distribution by a generation config."""
        config = GenerationConfig(**config, max_length=most)
        if config.min_new_tokens is not None:
            config.min_length = config.min_new_tokens + given
        model._prepare_special_tokens(config, device="cpu")
        steps = model._get_logits_processor(config, input_ids_seq_length=given, encoder_input_ids=ids[:, :given])
        return steps(ids, logits.unsqueeze(0)).softmax(-1)[0]

    def test_what_may_be_drawn_by_drawn_rules(self):
        model, other = gpt2(), 0
        for number in range(CONFIGS):
            draws = random.Random(number)
            torch.manual_seed(number)
            given, length = draws.choice((1, 5, 9)), draws.randint(0, 12)
            ids = torch.randint(0, VOCAB, (1, given + length))
            config, most = drawn_rules(draws, VOCAB, given), given + length + draws.choice((1, 2, 9))
            logits = 2 * torch.randn(VOCAB, dtype=torch.float64)
            with self.subTest(number, config=config), tempfile.TemporaryDirectory() as folder:
                Path(folder, "generation_config.json").write_text(json.dumps(config))
                request(folder, ids, logits=logits, given=torch.tensor(given), most=torch.tensor(most))
                expected = self.ruled(model, config, logits, ids, given, most)
                if expected.isnan().any():  # nothing is left
                    with self.assertRaises(subprocess.CalledProcessError):
                        HELPER.run("choices", folder)
                    continue
                HELPER.run("choices", folder)
                ours = load_file(Path(folder, "ours.safetensors"))
                self.assertEqual(set(ours["ids"].tolist()), set(expected.nonzero().flatten().tolist()))
                self.assertLess((ours["probabilities"] - expected[ours["ids"]]).abs().max().item(), PROBABILITY_BOUND)
                other += (expected - logits.softmax(-1)).abs().max().item() > 0.01
        self.assertGreater(other, CONFIGS // 2, "rules that change nothing show nothing")


if __name__ == "__main__":
    HELPER = RequestProgram(sys.argv.pop(1))
    unittest.main()
