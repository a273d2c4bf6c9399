"""Weights in blocks against the package gguf: what it unpacks is what is unpacked here, to the bit, and what it packs into
Q8_0 is what is packed here. For Q4_K, which it cannot pack, its unpacked values of what was packed here are compared with
those that were packed, and with what a plain range of each 32 numbers leaves of them."""
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402

try:
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file

    from gguf import GGMLQuantizationType as Type
    from gguf import quants
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

FORMATS = {"q8_0": (Type.Q8_0, 34, [0]), "q4_k": (Type.Q4_K, 144, [0, 2]), "q5_k": (Type.Q5_K, 176, [0, 2]),
           "q6_k": (Type.Q6_K, 210, [208])}
ROWS, ROW_BLOCKS = 37, 5


def random_blocks(rng, size, scales):
    """Any bytes are blocks; the scales are finite fp16 of all magnitudes, subnormal ones among them."""
    blocks = rng.integers(0, 256, (ROWS, ROW_BLOCKS, size), dtype=np.uint8)
    for at in scales:
        bits = rng.integers(0, 0x7C00, (ROWS, ROW_BLOCKS), dtype=np.uint16)
        bits |= rng.integers(0, 2, bits.shape, dtype=np.uint16) << 15
        blocks[..., at:at + 2] = bits[..., None].view(np.uint8).reshape(ROWS, ROW_BLOCKS, 2)
    return blocks


def unpacked(name, blocks):
    return quants.dequantize(blocks.reshape(ROWS, -1), FORMATS[name][0])


def plain_range(values):
    """Each 32 numbers rounded to 16 steps from their least (or 0) to their largest, with steps and minima in fp32."""
    groups = values.reshape(-1, 32)
    low = np.minimum(groups.min(1, keepdims=True), 0)
    step = (groups.max(1, keepdims=True) - low) / 15
    return (np.round((groups - low) / np.where(step == 0, 1, step)) * step + low).reshape(values.shape)


def relative(difference, values):
    return float(np.sqrt(np.square(difference, dtype=np.float64).sum() / np.square(values, dtype=np.float64).sum()))


def main():
    rng = np.random.default_rng(7)
    blocks = {name: random_blocks(rng, size, scales) for name, (_, size, scales) in FORMATS.items()}
    normal = rng.standard_normal((64, 512)).astype(np.float32) * 0.02
    values = {"normal": normal, "heavy": normal * np.abs(rng.standard_normal((64, 512))).astype(np.float32) ** 2,
              "positive": np.abs(normal), "zero": np.zeros((2, 256), np.float32)}
    values["one"] = values["zero"].copy()
    values["one"][1, 77] = -3.25
    request = {f"blocks/{n}": torch.from_numpy(b) for n, b in blocks.items()}
    request |= {f"values/{n}": torch.from_numpy(v) for n, v in values.items()}
    with tempfile.TemporaryDirectory() as folder:
        save_file(request, Path(folder) / "request.safetensors")
        subprocess.run([sys.argv[1], folder], check=True)
        answers = load_file(Path(folder) / "answers.safetensors")
    wrong = []
    for name, packed in blocks.items():
        expected = torch.from_numpy(unpacked(name, packed))
        for dtype, rounded in (("fp32", expected), ("bf16", expected.to(torch.bfloat16))):
            bits = torch.int32 if dtype == "fp32" else torch.int16
            if not torch.equal(answers[f"{dtype}/{name}"].view(bits), rounded.view(bits)):
                wrong.append(f"{name} unpacked to {dtype} is not what gguf unpacks")
        changed = packed.copy()
        changed[3, 2, 20] ^= 1
        if torch.equal(torch.from_numpy(unpacked(name, changed)), answers[f"fp32/{name}"]):
            wrong.append(f"a changed block of {name} is not told")
    for name, plain in values.items():
        theirs = quants.quantize(plain, Type.Q8_0).reshape(len(plain), -1, 34)
        if not np.array_equal(answers[f"q8_0/{name}"].numpy(), theirs):
            wrong.append(f"'{name}' packed into q8_0 is not what gguf packs")
        ours = quants.dequantize(answers[f"q4_k/{name}"].numpy().reshape(len(plain), -1), Type.Q4_K)
        if name == "zero":
            if ours.any():
                wrong.append("zeros packed into q4_k are not zeros")
            continue
        error, of_range = relative(ours - plain, plain), relative(plain_range(plain) - plain, plain)
        print(f"q4_k of '{name}': relative error {error:.4f}, {of_range:.4f} of the plain range with scales in fp32")
        if name != "one" and error > of_range:
            wrong.append(f"'{name}' packed into q4_k has a larger error than the plain range")
        if name == "one" and error > 0.01:
            wrong.append("one number packed into q4_k is another one")
    print("\n".join(wrong) or "as gguf has them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
