"""The data of tests/mutants/configs: small, made from a fixed seed, written where `accrue verify` is run."""
import json
import pathlib
import random
import struct

WORDS = ("accumulate the gradient of every sample in its window and divide once by what they weigh together "
         "so that no split of a batch changes the step which the optimizer takes").split()


def text_of(draw: random.Random, characters: int) -> str:
    text = ""
    while len(text) < characters:
        text += draw.choice(WORDS) + draw.choice((" ", " ", " ", ". ", "\n"))
    return text[:characters]


def write_images(folder: pathlib.Path, draw: random.Random, count: int, side: int) -> None:
    """In MNIST's format: squares on noise, of which the class is the place."""
    pixels, labels = bytearray(), bytearray()
    for _ in range(count):
        label = draw.randrange(10)
        top, left = divmod(label, 4)
        labels.append(label)
        pixels += bytes(min(255, draw.randrange(64) + (180 if y // 3 == top and x // 3 == left else 0))
                        for y in range(side) for x in range(side))
    (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, side, side) + pixels)
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def write_data(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    (folder / "text.txt").write_text(text_of(draw, 32 * 256 + 1))
    (folder / "long.txt").write_text(text_of(draw, 512 * 130))  # of rows enough for several chunks
    (folder / "short.txt").write_text(text_of(draw, 32 * 11 + 1))  # of fewer samples than a batch
    lines = [json.dumps({"prompt": text_of(draw, draw.randrange(2, 20)), "completion": text_of(draw, draw.randrange(1, 40))})
             for _ in range(64)]
    (folder / "chat.jsonl").write_text("\n".join(lines) + "\n")
    write_images(folder, draw, 64, 12)
    (folder / "thousand.txt").write_text(text_of(draw, 12 * 1064 + 1))
