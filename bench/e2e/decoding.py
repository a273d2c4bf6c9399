#!/usr/bin/env python3
"""How fast a model writes: accrue sample beside transformers' generate, greedy, with their caches.

    .venv-test/bin/python bench/e2e/decoding.py [--rounds 3] [--tokens 64] [--quick] [--out bench/results/decoding.json]

Random models of known shapes, the same folder for both, in turn, with as many threads; tokens/s of what follows the first
token, and of it the bytes of weights that were read. Beside them the machine's rate of reading memory, by a sum in numpy's
place: torch.sum of 1 GiB. What the two say is compared in fp32.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import transformers
from transformers import GPT2Config, LlamaConfig, Qwen2Config

from runs import BUILD, run, save, spread, table

PROMPT = "the quick brown fox jumps over the lazy dog. " * 2
SHAPES = {
    "10.8M": lambda: GPT2Config(vocab_size=256, n_positions=256, n_embd=384, n_layer=6, n_head=6),
    "124M": lambda: GPT2Config(vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12),
    "Qwen2.5-0.5B": lambda: Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, max_position_embeddings=4096, rope_theta=1e6, tie_word_embeddings=True,
        use_sliding_window=False),
}
QUICK = {"tiny": lambda: LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                     num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)}


def write_model(folder: pathlib.Path, config) -> int:
    """A random model whose ids below 256 are bytes. Returns the weights that one token reads."""
    torch.manual_seed(1)
    config.bos_token_id = config.eos_token_id = config.pad_token_id = None
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    write_byte_tokenizer(folder, config.vocab_size)
    looked_up = model.transformer.wpe.weight.numel() if hasattr(model, "transformer") else 0
    return model.num_parameters() - looked_up


def write_byte_tokenizer(folder: pathlib.Path, vocab: int) -> None:
    """Ids below 256 are bytes, others words of their own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {letter: i for i, letter in enumerate(letters)}
    words.update({f"<{i}>": i for i in range(len(letters), vocab)})
    made = Tokenizer(models.BPE(words, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))


def ours(folder: pathlib.Path, tokens: int, compute: str) -> dict:
    out, _ = run([str(BUILD / "accrue"), "sample", str(folder), "--prompt", PROMPT, "--tokens", str(tokens),
                  "--temperature", "0", "--compute", compute, "--json"])
    return json.loads(out)


def theirs(model, tokenizer, tokens: int) -> dict:
    ids = tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    stamps = []

    class Stamp(transformers.generation.streamers.BaseStreamer):
        def put(self, value):
            stamps.append(time.perf_counter())

        def end(self):
            pass

    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, min_new_tokens=tokens,
                             do_sample=False, use_cache=True, streamer=Stamp())
    # The first stamp is the prompt's, the second the first token's.
    return {"text": tokenizer.decode(out[0, ids.shape[1]:]),
            "tokens_per_second": (len(stamps) - 2) / (stamps[-1] - stamps[1])}


def read_rate() -> float:
    """Bytes a second of a sum over 1 GiB, the best of five."""
    values = torch.ones(2**28)
    best = min(timed(lambda: values.sum()) for _ in range(5))
    return values.numel() * 4 / best


def timed(action) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def measure(folder: pathlib.Path, config, options) -> dict:
    weights = write_model(folder, config)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    result = {}
    for compute, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        theirs(model, tokenizer, 8)  # warms up
        pairs = [(ours(folder, options.tokens, compute), theirs(model, tokenizer, options.tokens))
                 for _ in range(options.rounds)]
        rates = [[one["tokens_per_second"] for one in side] for side in zip(*pairs)]
        result[compute] = {
            "accrue": spread(rates[0]), "transformers": spread(rates[1]),
            "ratio": spread([a / b for a, b in zip(*rates)]),
            "weight_bytes_per_second": statistics.median(rates[0]) * weights * (4 if compute == "fp32" else 2),
            "same_text": pairs[0][0]["text"] == pairs[0][1]["text"]}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if options.quick:
        options.rounds = 1
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    shapes = QUICK if options.quick else {name: make for name, make in SHAPES.items()
                                          if options.models is None or name in options.models}
    results = {"memory": {"read_bytes_per_second": read_rate()}}
    rows = []
    for name, make in shapes.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(pathlib.Path(folder), make(), options)
        for compute, one in results[name].items():
            rows.append([f"{name}, {compute}", f"{one['accrue']['median']:.1f}", f"{one['transformers']['median']:.1f}",
                         f"{one['ratio']['median']:.2f}", f"{one['weight_bytes_per_second'] / 1e9:.1f} GB/s",
                         "yes" if one["same_text"] else "no"])
        print(rows[-2:], file=sys.stderr)
    print(table(["model", "accrue, tokens/s", "transformers, tokens/s", "times", "weights read", "same text"], rows))
    print(f"memory is read at {results['memory']['read_bytes_per_second'] / 1e9:.1f} GB/s")
    save("decoding.json", results, options.out, options.quick,
         {"transformers": transformers.__version__, "torch": torch.__version__})


if __name__ == "__main__":
    main()
