"""Writes the 8x8 digits of scikit-learn as image sets: write_digits.py FOLDER.

FOLDER/digits.bin     the truth: 1797 records of a label and 64 pixels, 0 to 240
FOLDER/folders/L/N.png  a folder per class
FOLDER/idx/train-images-idx3-ubyte and train-labels-idx1-ubyte
"""

import pathlib
import struct
import sys
import zlib

from sklearn.datasets import load_digits


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels) -> bytes:
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: write_digits.py FOLDER", file=sys.stderr)
        return 2
    root = pathlib.Path(sys.argv[1])
    digits = load_digits()
    images = (digits.images * 15).astype("uint8")
    labels = digits.target.astype("uint8")
    (root / "idx").mkdir(parents=True, exist_ok=True)
    for label in range(10):
        (root / "folders" / str(label)).mkdir(parents=True, exist_ok=True)
    for i, (image, label) in enumerate(zip(images, labels)):
        (root / "folders" / str(label) / f"{i:04}.png").write_bytes(png(image))
    count = len(labels)
    (root / "digits.bin").write_bytes(
        b"".join(bytes([label]) + image.tobytes() for image, label in zip(images, labels)))
    (root / "idx" / "train-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 0x803, count, 8, 8) + images.tobytes())
    (root / "idx" / "train-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 0x801, count) + labels.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
