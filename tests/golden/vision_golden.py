"""The ResNet against one written in plain torch.nn, the ViT against transformers: losses and every gradient from the
same weights, loaded through the file layout that both sides share.

usage: vision_golden.py HELPER"""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402
from request_program import RequestProgram  # noqa: E402
from tolerance import PROJECTION_LIMIT, projection_error, relative_error  # noqa: E402

try:
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn
    from transformers import ViTConfig, ViTForImageClassification
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

HELPER = None
IGNORED = -100
# Relative to the reference's largest element, as in tests/support/tolerance.h: 16 times the unit roundoff (bf16: 4
# times) times the square root of the summed terms (12 x 12 pixels of 10 images; 600 in the ViT).
TERMS = {"resnet": 12 * 12 * 10, "resnet18": 20 * 20 * 10, "resnet50": 20 * 20 * 10, "vit": 600}
SIDE = {"resnet": 12, "resnet18": 40, "resnet50": 40, "vit": 12}
UNIT = {"fp32": 16 * 2.0**-24, "bf16": 4 * 2.0**-9}


def bound(kind, precision):
    return 1e-10 if precision == "fp64" else UNIT[precision] * TERMS[kind] ** 0.5


class Block(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or width_in != width:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, width, 1, stride, bias=False),
                                            nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, blocks, width, classes, channels=3):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        before = width
        for stage in range(3):
            layers = []
            for i in range(blocks):
                layers.append(Block(before, width << stage, 2 if stage > 0 and i == 0 else 1))
                before = width << stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        return self.fc(self.layer3(self.layer2(self.layer1(x))).mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or width_in != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(width_in, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(torch.relu(self.bn2(self.conv2(y)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ImageNetResNet(nn.Module):
    """As torchvision has it, with its names."""

    def __init__(self, block, blocks, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        before = width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(block(before, width << stage, 2 if stage > 0 and i == 0 else 1))
                before = (width << stage) * (4 if block is Bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def make_vit():
    config = ViTConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192,
                       hidden_act="gelu_pytorch_tanh", hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                       layer_norm_eps=1e-6, image_size=12, patch_size=3, num_labels=7)
    return ViTForImageClassification(config)


def make_model(kind):
    model = {"resnet": lambda: ResNet(2, 8, 7), "vit": make_vit,
             "resnet18": lambda: ImageNetResNet(Block, (2, 2, 2, 2), 8, 7),
             "resnet50": lambda: ImageNetResNet(Bottleneck, (3, 4, 6, 3), 8, 7)}[kind]()
    with torch.no_grad():
        for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.train()


# transformers 5 names its modules otherwise than the files it reads and writes.
FILE_NAMES = (("vit.layers.", "vit.encoder.layer."), ("attention.q_proj", "attention.attention.query"),
              ("attention.k_proj", "attention.attention.key"), ("attention.v_proj", "attention.attention.value"),
              ("attention.o_proj", "attention.output.dense"), ("mlp.fc1", "intermediate.dense"),
              ("mlp.fc2", "output.dense"))


def file_name(name):
    for ours, in_file in FILE_NAMES:
        name = name.replace(ours, in_file)
    return name


def save_model(model, folder):
    if isinstance(model, (ResNet, ImageNetResNet)):
        save_file(model.state_dict(), Path(folder, "model.safetensors"))
    else:
        model.save_pretrained(folder)


def floor_of(expected):
    """What gradients are at least compared to. A key's bias moves all scores of a query alike: its gradient is 0 but
    for rounding."""
    return 1e-3 * max(value.abs().max().item() for value in expected.values())


class VisionGolden(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        logging.disable_progress_bar()

    def run_both(self, kind, precision, folder):
        """Our tensors, and the reference's loss, gradients and buffers in fp64."""
        model = make_model(kind)
        save_model(model, folder)
        batch = {"inputs": torch.randn(10, 3, SIDE[kind], SIDE[kind]), "targets": torch.randint(0, 7, (10,))}
        batch["targets"][4] = IGNORED
        save_file(batch, Path(folder, "batch.safetensors"))
        model = model.double()
        output = model(batch["inputs"].double())
        logits = output.logits if kind == "vit" else output
        loss = nn.functional.cross_entropy(logits, batch["targets"], ignore_index=IGNORED)
        loss.backward()
        HELPER.run(kind, folder, precision)
        expected = {file_name(name): p.grad for name, p in model.named_parameters()}
        expected |= dict(model.named_buffers()) | {"loss": loss.detach()}
        return load_file(Path(folder, "ours.safetensors")), expected

    def test_losses_gradients_and_buffers(self):
        for kind, precision in (("resnet", "fp64"), ("resnet", "fp32"),
                                ("resnet18", "fp64"), ("resnet18", "fp32"), ("resnet50", "fp64"),
                                ("vit", "fp64"), ("vit", "fp32"), ("vit", "bf16")):
            with self.subTest(f"{kind} {precision}"), tempfile.TemporaryDirectory() as folder:
                ours, expected = self.run_both(kind, precision, folder)
                self.assertEqual(ours.keys(), expected.keys())
                floor = floor_of(expected)
                for name, value in expected.items():
                    self.assertLessEqual(relative_error(ours[name], value, floor), bound(kind, precision), name)
                    self.assertLessEqual(projection_error(ours[name], value, floor), PROJECTION_LIMIT, name)

    def test_the_comparison_sees_a_wrong_gradient(self):
        for kind, name in (("resnet", "layer1.0.conv1.weight"),
                           ("vit", "vit.encoder.layer.1.attention.attention.key.weight")):
            with tempfile.TemporaryDirectory() as folder:
                ours, expected = self.run_both(kind, "fp32", folder)
                wrong = ours[name].transpose(0, 1)  # square: only its values tell
                self.assertGreater(relative_error(wrong, expected[name]), bound(kind, "fp32"))
                self.assertGreater(relative_error(ours[name] * 1.01, expected[name]), bound(kind, "fp32"))

    def test_the_comparison_sees_a_wrong_factor_in_bf16(self):
        with tempfile.TemporaryDirectory() as folder:
            ours, expected = self.run_both("vit", "bf16", folder)
            floor = floor_of(expected)
            for name, value in expected.items():
                if name.endswith("key.bias"):
                    continue
                for factor in (0.97, 1.03):
                    self.assertGreater(projection_error(factor * ours[name], value, floor), PROJECTION_LIMIT, name)


if __name__ == "__main__":
    HELPER = RequestProgram(sys.argv.pop(1))
    unittest.main()
