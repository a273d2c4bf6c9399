"""Steps of SGD by PyTorch on whole batches of a ResNet with BatchNorm against `accrue train` with
model.batchnorm = "exact" in micro-batches: parameters and running statistics.

exact_golden.py ACCRUE: the command line. Both start from the same exported weights and read the same images. Exit
status 77 where torch or safetensors are not there."""
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import vision_golden  # which also finds tests/support
import torch
from safetensors.torch import load_file, save_file
from tolerance import relative_error

ACCRUE = ""
IMAGES, SIDE, CLASSES, BATCH, STEPS = 40, 12, 5, 16, 5
LR, MOMENTUM = 0.1, 0.9
BOUND = 1e-10  # fp64, relative to the largest element


def make_model():
    torch.manual_seed(3)
    model = vision_golden.ResNet(1, 8, CLASSES, channels=1)
    with torch.no_grad():
        for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.train()


def write_images(folder):
    generator = torch.Generator().manual_seed(5)
    pixels = torch.randint(0, 256, (IMAGES, SIDE, SIDE), generator=generator, dtype=torch.uint8)
    labels = torch.arange(IMAGES, dtype=torch.uint8) % CLASSES
    Path(folder, "train-images-idx3-ubyte").write_bytes(
        struct.pack(">4I", 0x803, IMAGES, SIDE, SIDE) + pixels.numpy().tobytes())
    Path(folder, "train-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, IMAGES) + labels.numpy().tobytes())
    return ((pixels.float() / 255 - 0.5) / 0.5).double().unsqueeze(1), labels.long()


def train_by_torch(model, images, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)
    begin = 0
    for _ in range(STEPS):
        end = min(begin + BATCH, IMAGES)  # an epoch's last window is short
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[begin:end]), labels[begin:end]).backward()
        optimizer.step()
        begin = end % IMAGES
    return model.state_dict()


class ExactGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        images, labels = write_images(cls.folder)
        model = make_model()
        save_file(model.state_dict(), cls.folder / "start.safetensors")
        cls.expected = train_by_torch(model.double(), images, labels)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def worst_error(self, name, *overrides):
        """Of the largest element, over parameters and buffers, after training by accrue."""
        out = self.folder / name
        config = self.folder / f"{name}.toml"
        config.write_text(f"""
            [run]
            out = "{out}"
            steps = {STEPS}
            [model]
            kind = "resnet"
            layers = 8
            width = 8
            from = "{self.folder / 'start.safetensors'}"
            batchnorm = "exact"
            [data]
            format = "images"
            train = ["{self.folder / 'train-images-idx3-ubyte'}"]
            order = "sequential"
            [batch]
            samples = {BATCH}
            [precision]
            compute = "fp64"
            [optim]
            kind = "sgd"
            lr = {LR}
            momentum = {MOMENTUM}
            weight_decay = 0
            clip = 0
            schedule = {{kind = "constant"}}
            [observe]
            progress = "off"
            """)
        ran = subprocess.run([ACCRUE, "train", str(config), *overrides], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        actual = load_file(out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")
        self.assertEqual(actual.keys(), self.expected.keys())
        return max(relative_error(actual[name], value) for name, value in self.expected.items())

    def test_any_split_ends_where_whole_batches_end(self):
        for micro in (1, 5, BATCH):
            with self.subTest(micro=micro):
                self.assertLess(self.worst_error(f"exact-{micro}", f"--batch.micro={micro}"), BOUND)

    def test_the_comparison_sees_statistics_of_micro_batches(self):
        self.assertGreater(self.worst_error("micro", "--batch.micro=4", "--model.batchnorm=micro"), 1e-3)


if __name__ == "__main__":
    ACCRUE = sys.argv.pop(1)
    unittest.main()
