"""Checks what images are brought to against Pillow, and their classes against torchvision's rules: image_golden.py PROGRAM.

Pillow decodes, converts and scales; the sizes and margins are torchvision's, as its Resize and CenterCrop compute them.
Classes are those of torchvision's ImageFolder, whose rules are written down here as its documentation states them.
"""

import json
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from golden_form import share  # noqa: E402
from request_program import RequestProgram  # noqa: E402

try:
    import numpy
    from PIL import Image
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

SIZES = [(40, 40), (64, 48), (37, 91), (9, 7), (224, 160), (130, 33)]
TARGETS = [(32, 32), (8, 8), (48, 48), (20, 31), (31, 20)]


def make_image(mode, size, seed):
    """Noise on a slope: edges for the filter, and a wrong place shows everywhere."""
    random = numpy.random.default_rng(seed)
    width, height = size
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "P": 3}[mode]
    slope = numpy.linspace(0, 160, width)[None, :, None] + numpy.linspace(0, 60, height)[:, None, None]
    pixels = (slope + random.integers(0, 36, (height, width, channels))).astype("uint8")
    if mode == "P":
        return Image.fromarray(pixels).convert("P", palette=Image.Palette.ADAPTIVE)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, mode)


def covering_size(size, target):
    """Of a square this is torchvision's Resize(side)."""
    (width, height), (wanted_height, wanted_width) = size, target
    if wanted_height * width >= wanted_width * height:
        return int(wanted_height * width / height), wanted_height
    return wanted_width, int(wanted_width * height / width)


def expected(path, channels, target, resample=Image.Resampling.BILINEAR, shift=0, in_one=False):
    """Rows first, then columns; `in_one` in the order that this version of Pillow chooses."""
    image = Image.open(path)
    image = image.convert("RGB").convert("L") if channels == 1 and image.mode not in ("L", "LA") else (
        image.convert("L" if channels == 1 else "RGB"))
    width, height = covering_size(image.size, target)
    if in_one:
        image = image.resize((width, height), resample)
    else:
        image = image.resize((width, image.height), resample).resize((width, height), resample)
    top = int(round((image.height - target[0]) / 2.0)) + shift
    left = int(round((image.width - target[1]) / 2.0))
    pixels = numpy.asarray(image).astype("int32").reshape(image.height, image.width, channels)
    return pixels[top:top + target[0], left:left + target[1]].transpose(2, 0, 1)


def ours(paths, channels, target):
    out = Path(paths[0]).with_name("ours")
    PROGRAM.run(out, channels, *target, *paths)
    return numpy.fromfile(out, "uint8").astype("int32").reshape(len(paths), channels, *target)


def check(paths, channels, target):
    for path, image in zip(paths, ours(paths, channels, target)):
        for in_one, most in ((False, 0), (True, 1)):
            worst = abs(image - expected(path, channels, target, in_one=in_one)).max()
            assert worst <= most, f"{path} to {channels} x {target}: {worst} levels apart"


class Drawn:
    """A folder with classes of images, each image of a colour of its own, and what else may lie there."""

    def __init__(self, seed, folder):
        self.random = random.Random(seed)
        self.root = Path(folder, "root")
        self.elsewhere = Path(folder, "elsewhere")
        self.colours = {}  # by path
        for _ in range(self.random.randint(2, 5)):
            self.add_class()
        for _ in range(self.random.randint(0, 2)):
            self.add_something_else()

    def name(self):
        return "".join(self.random.choice("abcAB_-. 01[]") for _ in range(3)) + str(self.random.randint(0, 999))

    def add_image(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        number = len(self.colours)
        self.colours[path] = bytes([number // 16, 16 * (number % 16), self.random.randint(0, 255)])
        Image.new("RGB", (8, 8), tuple(self.colours[path])).save(path, format="PNG")

    def add_class(self):
        folder = self.root / self.name().lstrip(".")
        is_link = self.random.random() < 0.2
        place = self.elsewhere / self.name() if is_link else folder
        for _ in range(self.random.randint(1, 4)):
            below = [self.name().lstrip(".") for _ in range(self.random.choice([0, 0, 0, 1, 2]))]
            self.add_image(place.joinpath(*below, self.name().lstrip(".") + self.random.choice([".png", ".PNG"])))
        if is_link:
            folder.parent.mkdir(exist_ok=True)
            folder.symlink_to(place, target_is_directory=True)

    def add_something_else(self):
        kind = self.random.choice(["text", "image", "empty class"])
        self.root.mkdir(exist_ok=True)
        if kind == "image":
            self.add_image(self.root / "cover.png")
        elif kind == "text":
            (self.root / "meta").mkdir(exist_ok=True)
            (self.root / "meta" / "classes.txt").write_text("names")
        else:
            (self.root / "empty").mkdir(exist_ok=True)

    def globs(self):
        escaped = "".join("\\" + c if c in "[]*?" else c for c in str(self.root))
        return self.random.choice([[f"{escaped}/**/*.[pP][nN][gG]"], [f"{escaped}/*/**/*.[pP][nN][gG]"]])


def image_folder(root, class_of=lambda root, path: path.relative_to(root).parts[0]):
    """torchvision's rules: classes are the sorted names of the folders in the root, and all images below, behind links
    too, are of that class; a class without an image is an error, of which here is the name."""
    names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    files = {}
    for name in names:
        for folder, _, in_folder in sorted(os.walk(root / name, followlinks=True)):
            for file in sorted(in_folder):
                if file.lower().endswith((".jpg", ".jpeg", ".png")):
                    files[Path(folder, file)] = class_of(root, Path(folder, file))
    return sorted(set(files.values())), files, [name for name in names if name not in files.values()]


def check_classes(drawn, class_of=None):
    """Whether the classes, and those of all images, are the same; images beside them and empty classes are named."""
    out = drawn.root.with_name("classes")
    PROGRAM.run("classes", out, *drawn.globs())
    ours = json.loads(out.read_text())
    names, files, empty = image_folder(drawn.root, *([class_of] if class_of else []))
    colour_of = {path.resolve(): colour.hex() for path, colour in drawn.colours.items()}
    expected = {colour_of[path.resolve()]: names.index(name) for path, name in files.items()}
    remarks = " ".join(ours["remarks"])
    is_named = all(str(drawn.root / name) in remarks for name in empty)
    return (ours["classes"], ours["labels"], is_named) == (names, expected, True)


def check_class_folders():
    differ = 0
    count = share(200, 10)
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            drawn = Drawn(seed, folder)
            if len(image_folder(drawn.root)[0]) < 2:
                continue  # two names that are the same
            assert check_classes(drawn), f"draw {seed}: {sorted(drawn.colours)}"
            differ += not check_classes(drawn, lambda root, path: path.parent.name)  # the control
    assert differ > count // 10, "the folder that an image lies in would be no other class"
    print(f"{count} folders as ImageFolder has them")


def main():
    check_class_folders()
    with tempfile.TemporaryDirectory() as folder:
        for number, (mode, suffix) in enumerate(
                [("L", "png"), ("LA", "png"), ("RGB", "png"), ("RGBA", "png"), ("P", "png"), ("L", "jpg"), ("RGB", "jpg")]):
            paths = []
            for size in SIZES:
                paths.append(str(Path(folder, f"{mode}{size[0]}x{size[1]}.{suffix}")))
                make_image(mode, size, number).save(paths[-1], **({"quality": 90} if suffix == "jpg" else {}))
            for channels in (1, 3):
                for path, size in zip(paths, SIZES):
                    check([path], channels, (size[1], size[0]))  # its own size: converted, not scaled
                for target in TARGETS:
                    check(paths, channels, target)
        check_controls(paths)
    print("as Pillow has it")


def check_controls(paths):
    """Another filter and another margin show."""
    for target in TARGETS:
        image = ours(paths[:1], 3, target)[0]
        without_antialiasing = expected(paths[0], 3, target, Image.Resampling.NEAREST)
        assert abs(image - without_antialiasing).max() > 1, target
    image = ours(paths[2:3], 3, (32, 32))[0]  # a tall one: there is something to cut off
    beside = expected(paths[2], 3, (32, 32), shift=1)
    assert abs(image - beside).max() > 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    PROGRAM = RequestProgram(sys.argv[1])
    main()
