"""Checks how training images are changed against Pillow: augment_golden.py PROGRAM.

The program tells what it drew for an image; Pillow does the same with it, as torchvision's transforms call Pillow
(RandomResizedCrop, RandomCrop with padding, RandomHorizontalFlip, ColorJitter, RandomErasing).
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402

try:
    import numpy
    from PIL import Image, ImageEnhance, ImageOps
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

BILINEAR = Image.Resampling.BILINEAR
IMAGES = [("RGB", (64, 48), "png"), ("RGB", (37, 91), "jpg"), ("L", (40, 40), "png"), ("RGB", (130, 33), "png")]
COLOURS = {"brightness": 0.6, "contrast": 0.6, "saturation": 0.8, "hue": 0.3}
KINDS = [
    {"crop": [0.08, 1]},
    {"crop": [0.5, 1], "ratio": [2, 3], "flip": 0.5},
    {"crop": [0.9, 1], "ratio": [0.3, 0.31]},
    {"pad": 4, "flip": 0.5},
    COLOURS,
    {"brightness": 2.5, "contrast": 3},
    {"crop": [0.2, 1], "flip": 0.5, **COLOURS, "erase": 1},
]


def make_image(mode, size, seed):
    """Noise on slopes of all colours: a wrong place, order or sign shows everywhere."""
    random = numpy.random.default_rng(seed)
    width, height = size
    slopes = [numpy.linspace(a, b, width)[None] + numpy.linspace(c, d, height)[:, None]
              for a, b, c, d in ((0, 160, 0, 60), (120, 0, 90, 0), (0, 90, 130, 0))]
    pixels = (numpy.stack(slopes, -1) + random.integers(0, 36, (height, width, 3))).astype("uint8")
    return Image.fromarray(pixels[:, :, 0] if mode == "L" else pixels, mode)


def scaled(image, size):
    """Rows first, then columns, whichever order this version of Pillow chooses."""
    return image.resize((size[0], image.height), BILINEAR).resize(size, BILINEAR)


def fitted(image, target):
    """What evaluation sees: scaled to cover the target, cut to the centre."""
    height, width = target
    if height * image.width >= width * image.height:
        image = scaled(image, (int(height * image.width / image.height), height))
    else:
        image = scaled(image, (width, int(width * image.height / image.width)))
    left, top = int(round((image.width - width) / 2.0)), int(round((image.height - height) / 2.0))
    return image.crop((left, top, left + width, top + height))


def with_colour(image, aspect, amount):
    if aspect == "brightness":
        return ImageEnhance.Brightness(image).enhance(amount)
    if aspect == "contrast":
        return ImageEnhance.Contrast(image).enhance(amount)
    if aspect == "saturation":
        return ImageEnhance.Color(image).enhance(amount)
    hue, saturation, value = image.convert("HSV").split()
    turned = (numpy.asarray(hue).astype("int32") + int(amount * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype("uint8"), "L"), saturation, value)).convert("RGB")


def expected(path, target, change):
    channels, height, width = target
    image = Image.open(path)
    image = image.convert("RGB").convert("L") if channels == 1 else image.convert("RGB")
    if change["crop"]:
        top, left, rows, columns = change["crop"]
        image = scaled(image.crop((left, top, left + columns, top + rows)), (width, height))
    else:
        image = fitted(image, (height, width))
    down, right = change["shift"]
    margin = max(abs(down), abs(right))
    image = ImageOps.expand(image, margin).crop((right + margin, down + margin, right + margin + width, down + margin + height))
    if change["flipped"]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    for aspect, amount in change["colours"]:
        image = with_colour(image, aspect, amount)
    levels = numpy.asarray(image).reshape(height, width, channels).transpose(2, 0, 1).astype("float32")
    values = (levels / numpy.float32(255) - numpy.float32(0.5)) / numpy.float32(0.5)
    if change["erased"]:
        top, left, rows, columns = change["erased"]
        values[:, top:top + rows, left:left + columns] = 0
    return values


def ours(folder, shapes, target, draw, augment):
    output = subprocess.run([PROGRAM, f"{folder}/*/*", json.dumps(shapes), json.dumps(target), "7", str(draw), json.dumps(augment)],
                            check=True, stdout=subprocess.PIPE).stdout
    count = target[0] * target[1] * target[2]
    for _ in shapes:
        line, output = output.split(b"\n", 1)
        yield json.loads(line), numpy.frombuffer(output[:4 * count], "float32").reshape(target)
        output = output[4 * count:]


def is_right(values, path, target, change):
    return numpy.array_equal(values, expected(path, target, change))


def main():
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        paths, shapes = [], []
        for number, (mode, size, suffix) in enumerate(IMAGES):
            Path(folder, str(number)).mkdir()
            paths.append(str(Path(folder, str(number), f"image.{suffix}")))
            make_image(mode, size, number).save(paths[-1], **({"quality": 90} if suffix == "jpg" else {}))
            shapes.append([1 if mode == "L" else 3, size[1], size[0]])
        for augment in KINDS:
            for target in ([3, 32, 32], [3, 20, 31], [1, 24, 24]):
                if target[0] == 1 and ("hue" in augment or "saturation" in augment):
                    continue
                for draw in range(6):
                    for path, (change, values) in zip(paths, ours(folder, shapes, target, draw, augment)):
                        assert is_right(values, path, target, change), f"{path} to {target}, {augment}, draw {draw}: {change}"
                        seen.update(controls_of(values, path, target, change))
    assert seen == {"crop", "shift", "flipped", "colours", "order", "erased"}, seen
    print("as Pillow has it")


def controls_of(values, path, target, change):
    """What is a little other shows: the names of the changes that were tried."""
    for name, other in others_of(change):
        if not is_right(values, path, target, {**change, name.replace("order", "colours"): other}):
            yield name


def others_of(change):
    if change["crop"] and change["crop"][0] > 0:
        yield "crop", [change["crop"][0] - 1, *change["crop"][1:]]
    if change["shift"] != [0, 0]:
        yield "shift", [-change["shift"][0], -change["shift"][1]]
    yield "flipped", not change["flipped"]
    if change["colours"]:
        yield "colours", [[aspect, amount + 0.02] for aspect, amount in change["colours"]]
        yield "order", change["colours"][::-1]
    if change["erased"]:
        yield "erased", None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    PROGRAM = sys.argv[1]
    main()
