"""Writes the 8x8 digits of scikit-learn for the DCGAN example: make_digits.py FILE.

The file is 1797 images of 64 bytes, row by row, each pixel 0 (black) to 16 (white).
"""

import sys

from sklearn.datasets import load_digits


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_digits.py FILE", file=sys.stderr)
        return 2
    with open(sys.argv[1], "wb") as file:
        file.write(load_digits().data.astype("uint8").tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
