"""Steps by PyTorch on whole batches of images with masks against `accrue train` of the same scripted U-Net.

segmentation_golden.py ACCRUE: the command line. Pillow reads the files for PyTorch. Images have ignored pixels, each
another number of them, so that a mean of means would be another loss. Exit status 77 where PyTorch is not there."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from reserved_port import ReservedPort  # noqa: E402

try:
    import numpy
    import torch
    from PIL import Image
    from torch import nn

    import whole_batches
    from whole_batches import DTYPE, worst_error
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
IGNORED, CLASSES, HEIGHT, WIDTH = 255, 4, 16, 24
IMAGES, HELD_OUT, BATCH, STEPS = 18, 5, 6, 8
BOUND = {"fp32": 2e-5, "fp64": 1e-10}


def layers(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.bottom, self.up = layers(3, 6), layers(6, 8), layers(14, 6)
        self.head = nn.Conv2d(6, CLASSES, 1)

    def forward(self, x):
        skip = self.down(x)
        x = self.bottom(torch.max_pool2d(skip, 2))
        x = nn.functional.interpolate(x, scale_factor=2.0)
        return self.head(self.up(torch.cat([skip, x], 1)))


def write_images(folder):
    """Classes in vertical stripes with noise; the margin that is ignored differs from image to image."""
    random = numpy.random.default_rng(5)
    for kind in ("train", "val", "masks"):
        (folder / kind).mkdir()
    for number in range(IMAGES + HELD_OUT):
        mask = (numpy.arange(WIDTH) * CLASSES // WIDTH + number) % CLASSES
        mask = numpy.repeat(mask[None], HEIGHT, 0).astype("uint8")
        pixels = (mask[:, :, None] * [50, 20, 60] + random.integers(0, 90, (HEIGHT, WIDTH, 3))).astype("uint8")
        mask[:number % 7] = IGNORED
        part = "train" if number < IMAGES else "val"
        Image.fromarray(pixels).save(folder / part / f"{number:03}.png")
        Image.fromarray(mask, "L").save(folder / "masks" / f"{number:03}.png")


def read(folder, part):
    images, masks = [], []
    for path in sorted((folder / part).glob("*.png")):
        images.append(torch.from_numpy(numpy.array(Image.open(path))).permute(2, 0, 1))
        masks.append(torch.from_numpy(numpy.array(Image.open(folder / "masks" / path.name))).long())
    return ((torch.stack(images).float() / 255 - 0.5) / 0.5), torch.stack(masks)


def mean_of_all(model, images, masks):
    return nn.functional.cross_entropy(model(images), masks, ignore_index=IGNORED)


def mean_of_means(model, images, masks):
    """What dividing by the number of micro-batches comes to: wrong."""
    return torch.stack([mean_of_all(model, images[i:i + 1], masks[i:i + 1]) for i in range(len(images))]).mean()


def train_by_torch(start, images, masks, compute, loss=mean_of_all):
    model = torch.jit.load(start).to(DTYPE[compute])
    optimizer = whole_batches.Optimizer(model, compute)
    for _, window in zip(range(STEPS), whole_batches.windows(IMAGES, BATCH)):
        optimizer.step(loss(model, images[window].to(DTYPE[compute]), masks[window]))
    return model


class SegmentationGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        write_images(cls.folder)
        torch.manual_seed(3)
        cls.start = str(cls.folder / "unet.pt")
        torch.jit.script(UNet()).save(cls.start)
        cls.images, cls.masks = read(cls.folder, "train")
        cls.known = {}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def config(self, compute, name):
        path = self.folder / f"{name}.toml"
        data = f"""train = ["{self.folder}/train/*.png"]
        val = ["{self.folder}/val/*.png"]
        masks = ["{self.folder}/masks/*.png"]"""
        text = whole_batches.config(self.folder / name, self.start, data, STEPS, BATCH, compute)
        path.write_text(text.replace("[model]", '[model]\n        kind = "torchscript"'))
        return path

    def accrue(self, *words, status=0, rank=None, port=0):
        ranks = {} if rank is None else {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        process = subprocess.Popen([ACCRUE, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **ranks})
        if rank == 0:
            return process  # the other rank is still to be started
        output, errors = process.communicate()
        self.assertEqual(process.returncode, status, errors)
        return output if status == 0 else errors

    def exported(self, name):
        self.accrue("export", self.folder / name, "--out", self.folder / name / "exported")
        return torch.jit.load(self.folder / name / "exported" / "model.pt")

    def train_by_accrue(self, compute, name, *overrides):
        self.accrue("train", self.config(compute, name), *overrides)
        return self.exported(name), self.folder / name

    def trained(self, compute, micro):
        """The same run for all tests that read it and change nothing in it."""
        if (compute, micro) not in self.known:
            self.known[compute, micro] = self.train_by_accrue(compute, f"{compute}-{micro}", f"--batch.micro={micro}")
        return self.known[compute, micro]

    def error_of(self, model, expected):
        return worst_error(whole_batches.tensors_of(model), whole_batches.tensors_of(expected))

    def test_any_split_ends_where_whole_batches_end(self):
        for compute in DTYPE:
            expected = train_by_torch(self.start, self.images, self.masks, compute)
            for micro in (1, 4, BATCH):
                with self.subTest(compute=compute, micro=micro):
                    actual, _ = self.trained(compute, micro)
                    self.assertLess(self.error_of(actual, expected), BOUND[compute])

    def test_two_ranks_end_there_too(self):
        expected = train_by_torch(self.start, self.images, self.masks, "fp64")
        config = self.config("fp64", "ranks")
        port = ReservedPort()
        first = self.accrue("train", config, "--batch.micro=1", rank=0, port=port.number)
        self.accrue("train", config, "--batch.micro=1", rank=1, port=port.number)
        _, errors = first.communicate()
        self.assertEqual(first.returncode, 0, errors)
        self.assertLess(self.error_of(self.exported("ranks"), expected), BOUND["fp64"])

    def test_a_resumed_run_has_the_same_bits(self):
        changed = ("--batch.micro=2", "--data.augment={crop = [0.5, 1], flip = 0.5, brightness = 0.3}")
        straight, _ = self.train_by_accrue("fp32", "straight", *changed)
        self.accrue("train", self.config("fp32", "broken"), "--run.steps=3", *changed)
        broken, _ = self.train_by_accrue("fp32", "broken", "--resume", *changed)
        for name, tensor in whole_batches.tensors_of(straight).items():
            self.assertTrue(torch.equal(tensor, whole_batches.tensors_of(broken)[name]), name)

    def test_every_verb_takes_masks(self):
        config = self.config("fp32", "verbs")
        told = json.loads(self.accrue("data", config, "--json"))
        self.assertEqual((told["train"]["masks"], told["train"]["classes"]), (True, ["0", "1", "2", "3"]))
        self.assertIn("masks of 4 classes", self.accrue("data", config))
        self.assertTrue(json.loads(self.accrue("verify", config, "--batch.micro=4", "--json"))["equal"])
        self.assertGreater(json.loads(self.accrue("plan", config, "--json"))["micro_batch"], 0)
        self.accrue("doctor", config)
        self.accrue("train", config, "--run.steps=1", "--precision.accumulate=fixed", "--batch.micro=2")
        said = self.accrue("predict", self.folder / "verbs", self.folder / "val", status=2)
        self.assertIn("data.masks", said)
        for kind in ("resnet", "vit"):
            said = self.accrue("train", config, f"--model.kind={kind}", status=2)
            self.assertIn('data.masks only with model.kind = "torchscript" or "custom"', said)
        said = self.accrue("train", config, "--model.vocab=5", "--run.out=more", status=2)
        self.assertIn("K being 5 or more", said)

    def test_accuracy_is_that_of_the_pixels_that_count(self):
        model, out = self.trained("fp64", 4)
        images, masks = read(self.folder, "val")
        with torch.no_grad():
            logits = model.double()(images.double())
        counted = masks != IGNORED
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        told = [line for line in lines if "eval_accuracy" in line][-1]
        right = (logits.argmax(1) == masks)[counted].double().mean().item()
        self.assertAlmostEqual(told["eval_accuracy"], right, delta=1e-9)
        self.assertNotAlmostEqual(told["eval_accuracy"], (logits.argmax(1) == masks).double().mean().item(), delta=1e-3)
        loss = nn.functional.cross_entropy(logits, masks, ignore_index=IGNORED).item()
        self.assertAlmostEqual(told["eval_loss"], loss, delta=1e-9 * loss)

    def test_the_model_card_makes_a_mask(self):
        model, out = self.trained("fp64", 4)
        code = (out / "exported" / "README.md").read_text().split("```python\n")[1].split("```")[0]
        code = code.replace("PATH_TO_THIS_FOLDER", str(out / "exported"))
        Image.open(self.folder / "val" / f"{IMAGES:03}.png").save(self.folder / "image.png")
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(code, "README.md", "exec"), {})  # in this process, which has torch already
        with torch.no_grad():
            expected = model.double()(read(self.folder, "val")[0][:1].double())[0].argmax(0)
        made = numpy.array(Image.open(self.folder / "mask.png"))
        self.assertTrue((made == expected.numpy()).all())
        self.assertAlmostEqual(sum(float(line.split()[1]) for line in said.getvalue().splitlines()), 1, delta=1e-9)

    def test_the_comparison_sees_a_mean_of_means(self):
        expected = train_by_torch(self.start, self.images, self.masks, "fp64", mean_of_means)
        actual, _ = self.trained("fp64", 1)
        self.assertGreater(self.error_of(actual, expected), 1e4 * BOUND["fp64"])


if __name__ == "__main__":
    ACCRUE = sys.argv.pop(1)
    unittest.main(verbosity=2)
