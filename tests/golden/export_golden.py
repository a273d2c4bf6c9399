"""What `accrue export` writes of models of images, loaded by others: probabilities as `accrue predict` tells them.

export_golden.py ACCRUE: the command line. Each model is loaded by the lines of its own model card. Exit status 77
where torch, transformers or Pillow are not there."""
import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402

try:
    import numpy
    import torch
    from PIL import Image
    from safetensors.torch import load_file, save_file
    from transformers import AutoImageProcessor, ViTForImageClassification
    from transformers.utils import logging
except ImportError as error:
    skips.missing_in_build(f"{error}; scripts/setup.sh test installs what is missing")

ACCRUE = ""
BOUND = 1e-5  # of probabilities: fp32 sums of some hundred terms
LEVEL = 0.02  # where Pillow may scale the columns first: a level of 255 in some pixels
CONFIG = """
[run]
out = "run"
steps = {steps}
threads = 1
[data]
train = ["images/*/*"]
image = {size}
[batch]
samples = 8
micro = 8
[optim]
lr = 1e-2
[model]
{model}
"""
RESNET = 'kind = "resnet"\nlayers = 8\nwidth = 8\n'
VIT = 'kind = "vit"\nlayers = 2\nheads = 2\nwidth = 16\ncontext = 4\n'
TIMM = 'kind = "resnet"\nlayers = 18\nwidth = 64\n'
MODELS = {
    "resnet": (RESNET + 'batchnorm = "exact"\n', 16),
    "resnet of groups": (RESNET + 'batchnorm = "convert-group"\n', 16),
    "resnet of instances, not square": (RESNET + 'batchnorm = "convert-instance"\n', [20, 12]),
    "vit": (VIT, 16),
    "vit, not square": (VIT, [20, 12]),
    "resnet of timm": (TIMM + 'batchnorm = "exact"\n', 16),
    "resnet of timm, of layers": (TIMM + 'batchnorm = "convert-layer"\n', 16),
    "resnet of 7x7, of groups": (TIMM + 'batchnorm = "convert-group"\n', 16),
    "resnet of 7x7, narrow": ('kind = "resnet"\nlayers = 18\nwidth = 8\nbatchnorm = "exact"\n', 16),
    "torchscript": ('kind = "torchscript"\nfrom = "module.pt"\n', 16),
}


# What timm (1.0) reads of a folder's config.json: the fields of its PretrainedCfg, and the arguments of its ResNet.
TIMM_FIELDS = {"input_size", "num_classes", "mean", "std", "interpolation", "crop_pct", "crop_mode", "first_conv", "classifier"}
TIMM_ARGUMENTS = {"norm_layer"}
TIMM_NORMS = {"batchnorm": torch.nn.BatchNorm2d, "groupnorm1": lambda channels: torch.nn.GroupNorm(1, channels)}


class TimmBlock(torch.nn.Module):
    def __init__(self, before, width, stride, norm):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = norm(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = norm(width)
        self.downsample = None
        if stride != 1 or before != width:
            self.downsample = torch.nn.Sequential(torch.nn.Conv2d(before, width, 1, stride, bias=False), norm(width))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class TimmResNet18(torch.nn.Module):
    """timm's resnet18, with the names of its parameters."""

    def __init__(self, num_classes, in_chans, norm_layer="batchnorm"):
        super().__init__()
        norm = TIMM_NORMS[norm_layer]
        self.conv1 = torch.nn.Conv2d(in_chans, 64, 7, 2, 3, bias=False)
        self.bn1 = norm(64)
        before = 64
        for stage in range(4):
            width = 64 << stage
            self.add_module(f"layer{stage + 1}", torch.nn.Sequential(
                TimmBlock(before, width, 1 if stage == 0 else 2, norm), TimmBlock(width, width, 1, norm)))
            before = width
        self.fc = torch.nn.Linear(before, num_classes)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


def by_timm(folder):
    """create_model("local-dir:FOLDER", pretrained=True): by timm itself if it is there, and else as it reads the folder."""
    try:
        import timm
    except ImportError:
        config = json.loads(Path(folder, "config.json").read_text())
        if config["architecture"] != "resnet18":
            raise RuntimeError(f"Unknown model ({config['architecture']})")
        described, arguments = config["pretrained_cfg"], config.get("model_args", {})
        assert set(described) <= TIMM_FIELDS and set(arguments) <= TIMM_ARGUMENTS, config
        model = TimmResNet18(config["num_classes"], described["input_size"][0], **arguments)
        model.load_state_dict(load_file(Path(folder, "model.safetensors")))
        return model.eval()
    return timm.create_model(f"local-dir:{folder}", pretrained=True).eval()


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(),
                                        torch.nn.Linear(8 * 7 * 7, 3))

    def forward(self, x):
        return self.body(x)


def write_images(folder, colours=("RGB", "RGBA", "L")):
    """Three classes of stripes, of several sizes and colours."""
    random = numpy.random.default_rng(2)
    for number in range(24):
        kind = number % 3
        height, width = 16 + number % 9, 16 + number % 7
        rows, columns = numpy.mgrid[0:height, 0:width]
        stripes = (rows, columns, rows + columns)[kind] // 3 % 2 * 150
        pixels = (stripes + random.integers(0, 90, (height, width))).astype("uint8")
        path = Path(folder, "images", ("lying", "standing", "slanted")[kind], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).convert(colours[number % len(colours)]).save(path)


def accrue(folder, *words):
    return subprocess.run([ACCRUE, *words], cwd=folder, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True).stdout


class Models:
    """One folder for each of MODELS, of which some are read by several tests: trained, exported and predicted with at the first use."""

    def __init__(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.known = {}

    def trained(self, name):
        """The folder, and what is predicted of its images. Tests that change files work on a copy."""
        if name not in self.known:
            folder = str(Path(self.scratch.name, str(len(self.known))))
            Path(folder).mkdir()
            self.known[name] = (folder, self.train(folder, name))
        return self.known[name]

    def train(self, folder, name):
        write_images(folder)
        torch.manual_seed(1)
        torch.jit.script(Network()).save(str(Path(folder, "module.pt")))
        model, size = MODELS[name]
        steps = 2 if "width = 64" in model else 12
        Path(folder, "run.toml").write_text(CONFIG.format(model=model, size=size, steps=steps))
        accrue(folder, "train", "run.toml")
        accrue(folder, "export", "run", "--out", "model")
        return json.loads(accrue(folder, "predict", "run", "images", "--json"))["images"]


def check_packages(card, code):
    """The card's pip line has what its Python imports, and nothing else."""
    imported = set(re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE)) - sys.stdlib_module_names
    needed, = re.findall(r"^pip install (.*)$", card, re.MULTILINE)
    names = sorted({"PIL": "pillow"}.get(name, name) for name in imported)
    assert needed.split() == names, f"the card installs {needed}, and its Python imports {names}"


def by_its_card(folder):
    """The model and the reader of images, by the Python of README.md."""
    card = Path(folder, "model", "README.md").read_text()
    code, = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    check_packages(card, code)
    code = code.replace("PATH_TO_THIS_FOLDER", str(Path(folder, "model"))).replace('"image.png"', "IMAGE")
    names = {"IMAGE": next(Path(folder, "images").glob("*/*.png"))}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "README.md", "exec"), names)
    return names["model"], names["read"]


def probabilities(model, image):
    with torch.no_grad():
        output = model(image)
    return getattr(output, "logits", output).softmax(-1)[0]


def as_predicted(prediction):
    values = torch.zeros(3)
    for one in prediction["top"]:
        values[one["index"]] = one["probability"]
    return values


class ExportGolden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.models = Models()
        cls.addClassCleanup(cls.models.scratch.cleanup)

    def setUp(self):
        logging.disable_progress_bar()

    def difference(self, folder, model, read, predictions):
        return max((probabilities(model, read(Path(folder, one["path"]))) - as_predicted(one)).abs().max().item()
                   for one in predictions)

    def test_models_say_what_predict_says(self):
        for name in set(MODELS) - {"resnet of 7x7, of groups", "resnet of timm, of layers"}:
            with self.subTest(name):
                folder, predictions = self.models.trained(name)
                model, read = by_its_card(folder)
                self.assertLess(self.difference(folder, model, read, predictions), LEVEL)
                # Images that need no scaling are the same to the last level.
                size = MODELS[name][1]
                height, width = size if isinstance(size, list) else (size, size)
                exact = Path(folder, "exact.png")
                Image.open(Path(folder, predictions[0]["path"])).convert("RGB").crop((0, 0, width, height)).save(exact)
                one, = json.loads(accrue(folder, "predict", "run", "exact.png", "--json"))["images"]
                self.assertLess(self.difference(folder, model, read, [one]), BOUND)

    def test_class_names_are_where_each_library_looks_for_them(self):
        names = ["lying", "slanted", "standing"]
        folder, _ = self.models.trained("resnet")
        config = json.loads(Path(folder, "model", "config.json").read_text())
        self.assertEqual((config["label_names"], config["num_classes"]), (names, 3))
        folder, _ = self.models.trained("vit")
        config = ViTForImageClassification.from_pretrained(Path(folder, "model")).config
        self.assertEqual(config.id2label, dict(enumerate(names)))
        self.assertEqual(config.label2id["standing"], 2)

    def test_transformers_loads_a_vit_with_nothing_to_say_and_reads_images_alike(self):
        folder, predictions = self.models.trained("vit")
        with self.assertNoLogs("transformers", level="WARNING"):
            model, info = ViTForImageClassification.from_pretrained(Path(folder, "model"),
                                                                    output_loading_info=True)
        self.assertFalse([key for key, value in info.items() if value], info)
        processor = AutoImageProcessor.from_pretrained(Path(folder, "model"))
        image = Path(folder, "images", "lying", "0.png")  # 16 x 16
        pixels = processor(Image.open(image), return_tensors="pt")["pixel_values"]
        _, read = by_its_card(folder)
        self.assertLess((pixels - read(image)).abs().max().item(), 1e-6)
        one, = [p for p in predictions if p["path"].endswith("lying/0.png")]
        self.assertLess((probabilities(model.eval(), pixels) - as_predicted(one)).abs().max().item(), BOUND)

    def test_timm_loads_what_the_guide_says(self):
        for name in ("resnet of timm", "resnet of timm, of layers"):
            with self.subTest(name):
                folder, predictions = self.models.trained(name)
                _, read = by_its_card(folder)
                self.assertLess(self.difference(folder, by_timm(Path(folder, "model")), read, predictions), LEVEL)
                self.assertIn("timm.create_model", Path(folder, "model", "README.md").read_text())
        for name in ("resnet", "resnet of 7x7, of groups", "resnet of 7x7, narrow"):
            with self.subTest(name):
                folder, _ = self.models.trained(name)
                self.assertNotIn("timm.create_model", Path(folder, "model", "README.md").read_text())
                with self.assertRaisesRegex(RuntimeError, "Unknown model"):
                    by_timm(Path(folder, "model"))

    def test_the_comparison_sees_other_weights(self):
        trained, predictions = self.models.trained("resnet")
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(trained, folder, dirs_exist_ok=True)
            weights = load_file(Path(folder, "model", "model.safetensors"))
            weights["layer3.0.conv2.weight"] = weights["layer3.0.conv2.weight"].transpose(0, 1).contiguous()
            save_file(weights, Path(folder, "model", "model.safetensors"))
            model, read = by_its_card(folder)
            self.assertGreater(self.difference(folder, model, read, predictions), LEVEL)


if __name__ == "__main__":
    ACCRUE = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
