"""Checks how training images are changed against Pillow: augment_golden.py PROGRAM.

The program tells what it drew for an image; Pillow does the same with it, as torchvision's transforms call Pillow
(RandomResizedCrop, RandomCrop with padding, RandomHorizontalFlip, ColorJitter, RandomErasing). A mask goes where its image
goes, by Pillow's NEAREST; what lies outside is ignored.
"""

import json
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from request_program import RequestProgram  # noqa: E402

try:
    import numpy
    from PIL import Image, ImageEnhance, ImageOps
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

BILINEAR, NEAREST = Image.Resampling.BILINEAR, Image.Resampling.NEAREST
IGNORED = -100
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


def make_mask(size, seed):
    """Of each kind that a mask may be: grey of 8 bits and of 1, a palette of 8 bits and of 4."""
    classes = [19, 2, 15, 14][seed]
    width, height = size
    random = numpy.random.default_rng(100 + seed)
    numbers = random.integers(0, classes, (height, width)).astype("uint8")
    if classes > 15:
        numbers[random.random((height, width)) < 0.1] = 255
    if classes == 2:
        return Image.fromarray(numbers.astype(bool))
    image = Image.fromarray(numbers, "L" if seed == 0 else "P")
    if seed:
        image.putpalette([c for i in range(16 if seed == 3 else 256) for c in (7 * i % 256, 255 - i, 3 * i % 256)])
    return image


def scaled(image, size):
    """Rows first, then columns, whichever order this version of Pillow chooses."""
    return image.resize((size[0], image.height), BILINEAR).resize(size, BILINEAR)


def nearest(mask, size):
    return mask.resize(size, NEAREST)


def fitted(image, target, scaled=scaled):
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


def moved(image, target, change, scaled, outside):
    """The parts of a change that say where pixels come from."""
    _, height, width = target
    if change["crop"]:
        top, left, rows, columns = change["crop"]
        image = scaled(image.crop((left, top, left + columns, top + rows)), (width, height))
    else:
        image = fitted(image, (height, width), scaled)
    down, right = change["shift"]
    margin = max(abs(down), abs(right))
    image = ImageOps.expand(image, margin, outside).crop(
        (right + margin, down + margin, right + margin + width, down + margin + height))
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if change["flipped"] else image


def expected(path, target, change):
    channels, height, width = target
    image = Image.open(path)
    image = image.convert("RGB").convert("L") if channels == 1 else image.convert("RGB")
    image = moved(image, target, change, scaled, 0)
    for aspect, amount in change["colours"]:
        image = with_colour(image, aspect, amount)
    levels = numpy.asarray(image).reshape(height, width, channels).transpose(2, 0, 1).astype("float32")
    values = (levels / numpy.float32(255) - numpy.float32(0.5)) / numpy.float32(0.5)
    if change["erased"]:
        top, left, rows, columns = change["erased"]
        values[:, top:top + rows, left:left + columns] = 0
    return values


def expected_classes(path, target, change, scaled=nearest):
    """The numbers of a mask as they are, those of a palette not looked up."""
    numbers = Image.fromarray(numpy.asarray(Image.open(path)).astype("uint8"), "L")
    classes = numpy.asarray(moved(numbers, target, change, scaled, 255)).astype("int64")
    return numpy.where(classes == 255, IGNORED, classes)


def by_lower_corner(mask, size):
    """Another convention of the nearest pixel, that of torch's interpolate(mode="nearest")."""
    rows = numpy.arange(size[1]) * mask.height // size[1]
    columns = numpy.arange(size[0]) * mask.width // size[0]
    return Image.fromarray(numpy.asarray(mask)[rows][:, columns])


def ours(folder, shapes, target, draw, augment, masks):
    """Of each image what was drawn, its values and, with masks, the classes."""
    out = Path(folder, "ours")
    PROGRAM.run(out, f"{folder}/images/*/*", json.dumps(shapes), json.dumps(target), 7, draw, json.dumps(augment), *[f"{folder}/masks/*/*"] * masks)
    output = out.read_bytes()
    count, pixels = target[0] * target[1] * target[2], target[1] * target[2]
    for _ in shapes:
        line, output = output.split(b"\n", 1)
        values, output = output[:4 * count], output[4 * count:]
        classes = None
        if masks:
            classes, output = numpy.frombuffer(output[:8 * pixels], "int64").reshape(target[1:]), output[8 * pixels:]
        yield json.loads(line), numpy.frombuffer(values, "float32").reshape(target), classes


def is_right(values, path, target, change):
    return numpy.array_equal(values, expected(path, target, change))


def main():
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        paths, masks, shapes = [], [], []
        for number, (mode, size, suffix) in enumerate(IMAGES):
            for kind in ("images", "masks"):
                Path(folder, kind, str(number)).mkdir(parents=True)
            paths.append(str(Path(folder, "images", str(number), f"image.{suffix}")))
            make_image(mode, size, number).save(paths[-1], **({"quality": 90} if suffix == "jpg" else {}))
            masks.append(str(Path(folder, "masks", str(number), "image.png")))
            make_mask(size, number).save(masks[-1], **({"bits": 4} if number == 3 else {}))
            shapes.append([1 if mode == "L" else 3, size[1], size[0]])
        for augment in KINDS:
            for target in ([3, 32, 32], [3, 20, 31], [1, 24, 24]):
                if target[0] == 1 and ("hue" in augment or "saturation" in augment):
                    continue
                for draw in range(6):
                    answers = ours(folder, shapes, target, draw, augment, masks=draw % 2 == 1)
                    for path, mask, (change, values, classes) in zip(paths, masks, answers):
                        case = f"{path} to {target}, {augment}, draw {draw}: {change}"
                        assert is_right(values, path, target, change), case
                        seen.update(controls_of(values, path, target, change))
                        if classes is not None:
                            assert numpy.array_equal(classes, expected_classes(mask, target, change)), f"mask of {case}"
                            seen.update(controls_of_mask(classes, mask, target, change))
    assert seen == {"crop", "shift", "flipped", "colours", "order", "erased", "mask: crop", "mask: shift", "mask: flipped",
                    "mask: nearest"}, seen
    print("as Pillow has it")


def controls_of(values, path, target, change):
    """What is a little other shows: the names of the changes that were tried."""
    for name, other in others_of(change):
        if not is_right(values, path, target, {**change, name.replace("order", "colours"): other}):
            yield name


def controls_of_mask(classes, path, target, change):
    """As controls_of(), and another convention of the nearest pixel."""
    for name, other in others_of(change):
        if name in ("crop", "shift", "flipped"):
            if not numpy.array_equal(classes, expected_classes(path, target, {**change, name: other})):
                yield f"mask: {name}"
    if not numpy.array_equal(classes, expected_classes(path, target, change, by_lower_corner)):
        yield "mask: nearest"


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
    PROGRAM = RequestProgram(sys.argv[1])
    main()
