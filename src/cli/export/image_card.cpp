#include <algorithm>

#include "accrue/models/resnet.h"
#include "cli/export/card_parts.h"
#include "cli/export/model_card.h"
#include "models/files/hub/vision_io.h"

namespace accrue::cli {
namespace {

/// The rules of data::open_source() in Python; CHANNELS, HEIGHT and WIDTH are defined before it.
constexpr const char* image_reader = R"(

def read(path):
    """An image file as the model takes it: [1, CHANNELS, HEIGHT, WIDTH] from -1 to 1."""
    image = Image.open(path).convert("RGB" if CHANNELS == 3 else "L")
    if HEIGHT * image.width >= WIDTH * image.height:
        size = image.width * HEIGHT // image.height, HEIGHT
    else:
        size = WIDTH, image.height * WIDTH // image.width
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = round((image.width - WIDTH) / 2), round((image.height - HEIGHT) / 2)
    image = image.crop((left, top, left + WIDTH, top + HEIGHT))
    pixels = torch.from_numpy(numpy.array(image)).view(HEIGHT, WIDTH, CHANNELS).permute(2, 0, 1)
    return ((pixels / 255 - 0.5) / 0.5)[None]

)";

constexpr const char* vit_loading = R"(
model = ViTForImageClassification.from_pretrained(FOLDER).eval()
with torch.no_grad():
    probabilities = model(read("image.png")).logits.softmax(-1)[0]
print(model.config.id2label[int(probabilities.argmax())], float(probabilities.max()))
)";

constexpr const char* resnet_loading = R"(
config = json.loads(Path(FOLDER, "config.json").read_text())


def norm(channels):
    kind = config["network"]["norm"]
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    groups = {"layer": 1, "instance": channels}.get(kind)
    if groups is None:
        most = max(1, min(32, channels // 4))
        groups = max(n for n in range(1, most + 1) if channels % n == 0)
    return nn.GroupNorm(groups, channels)


class Block(nn.Module):
    def __init__(self, before, width, stride, is_bottleneck):
        super().__init__()
        kernels = (1, 3, 1) if is_bottleneck else (3, 3)
        self.count, self.downsample, entering = len(kernels), None, before
        out, rest = width * (4 if is_bottleneck else 1), stride
        for i, kernel in enumerate(kernels, 1):
            after, its_stride = out if i == self.count else width, rest if kernel == 3 else 1
            rest = 1 if kernel == 3 else rest
            self.add_module(f"conv{i}", nn.Conv2d(entering, after, kernel, its_stride, kernel // 2, bias=False))
            self.add_module(f"bn{i}", norm(after))
            entering = after
        if stride != 1 or before != out:
            self.downsample = nn.Sequential(nn.Conv2d(before, out, 1, stride, bias=False), norm(out))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y if i == 1 else torch.relu(y)))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, layers, stem, width, **others):
        super().__init__()
        self.is_large = stem == "7x7"
        counts = {18: (2, 2, 2, 2), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}.get(layers, (3, 4, 6, 3))
        if not self.is_large:
            counts = [(layers - 2) // 6] * 3
        self.conv1 = nn.Conv2d(CHANNELS, width, *((7, 2, 3) if self.is_large else (3, 1, 1)), bias=False)
        self.bn1 = norm(width)
        before = width
        for stage, count in enumerate(counts):
            blocks = []
            for i in range(count):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(Block(before, width << stage, stride, self.is_large and layers >= 50))
                before = (width << stage) * (4 if self.is_large and layers >= 50 else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.count = len(counts)
        self.fc = nn.Linear(before, config["num_classes"])

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        if self.is_large:
            x = nn.functional.max_pool2d(x, 3, 2, 1)
        for stage in range(self.count):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(x.mean((2, 3)))


model = ResNet(**config["network"]).eval()
model.load_state_dict(load_file(Path(FOLDER, "model.safetensors")))
with torch.no_grad():
    probabilities = model(read("image.png")).softmax(-1)[0]
print(config["label_names"][int(probabilities.argmax())], float(probabilities.max()))
)";

constexpr const char* module_loading = R"(
config = json.loads(Path(FOLDER, "config.json").read_text())
model = torch.jit.load(str(Path(FOLDER, "model.pt"))).eval()
with torch.no_grad():
    probabilities = model(read("image.png")).softmax(-1)[0]
print(config["label_names"][int(probabilities.argmax())], float(probabilities.max()))
)";

constexpr const char* mask_loading = R"(
config = json.loads(Path(FOLDER, "config.json").read_text())
model = torch.jit.load(str(Path(FOLDER, "model.pt"))).eval()
with torch.no_grad():
    outputs = model(read("image.png").to(next(model.parameters()).dtype))
    if not isinstance(outputs, torch.Tensor):  # the first of several
        outputs = next(iter(outputs.values() if isinstance(outputs, dict) else outputs))
    mask = outputs[0, :len(config["label_names"])].argmax(0)  # [HEIGHT, WIDTH]
Image.fromarray(mask.numpy().astype(numpy.uint8)).save("mask.png")
for index, count in zip(*(found.tolist() for found in mask.unique(return_counts=True))):
    print(config["label_names"][index], count / mask.numel())
)";

/// The differences between kinds of models.
struct ImageCard {
  const char* library;
  const char* title;
  const char* description;
  const char* packages;
  const char* imports;
  const char* loading;
};

ImageCard card_of(train::ModelKind kind, bool has_masks) {
  if (kind == train::ModelKind::vit)
    return {"transformers",
            "A vision transformer trained with accrue",
            "A ViT (Dosovitskiy et al., arXiv:2010.11929); the folder loads as `transformers`' "
            "ViTForImageClassification.",
            "numpy pillow torch transformers",
            "import numpy\nimport torch\nfrom PIL import Image\nfrom transformers import "
            "ViTForImageClassification\n",
            vit_loading};
  if (kind == train::ModelKind::resnet)
    return {
        "",
        "A ResNet trained with accrue",
        "A residual network (He et al., arXiv:1512.03385): with a stem of 7x7 that for ImageNet, "
        "as "
        "torchvision has it; with one of 3x3\nthat for small images (section 4.2: three stages, no "
        "pooling before them). `model.safetensors` has torchvision's names.",
        "numpy pillow safetensors torch",
        "import json\nfrom pathlib import Path\n\nimport numpy\nimport torch\nfrom PIL import "
        "Image\nfrom safetensors.torch import load_file\nfrom torch import nn\n",
        resnet_loading};
  return {"",
          "A TorchScript module trained with accrue",
          "`model.pt` holds the module with its trained weights.",
          "numpy pillow torch",
          "import json\nfrom pathlib import Path\n\nimport numpy\nimport torch\nfrom PIL import "
          "Image\n",
          has_masks ? mask_loading : module_loading};
}

/// How timm loads the folder, which has its form; empty if timm has no such network.
std::string timm_loading(const train::TrainedModel& trained) {
  const auto* resnet = dynamic_cast<const models::ResNet*>(trained.model.get());
  if (resnet == nullptr || !models::timm_name(resnet->options())) return "";
  return "\n`timm.create_model(\"local-dir:PATH_TO_THIS_FOLDER\", pretrained=True)` loads it as "
         "well.\n";
}

/// The names of the classes: all of them if they are few.
std::string classes_in_words(const train::ModelConfig& model, std::int64_t count) {
  constexpr std::int64_t most = 20;
  std::string text = std::to_string(count) + " classes";
  for (std::int64_t i = 0; i < std::min(count, most); ++i)
    text += (i == 0 ? ": " : ", ") + train::class_name(model, i);
  return text + (count > most ? ", ...; `config.json` has them all." : ".");
}

}  // namespace

std::string image_model_card(const train::TrainedModel& trained) {
  const train::ModelConfig& model = trained.config.model;
  const bool has_masks = !trained.config.data.masks.empty();
  const ImageCard card = card_of(model.kind, has_masks);
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  return card_head(card.library, has_masks ? "image-segmentation" : "image-classification",
                   {trained.model->kind(), "accrue"}, card.title) +
         card.description + " " + written_from(trained) + "\n" +
         classes_in_words(model, model.vocab.value_or(0)) + "\n\n## Images\n\nThe model reads " +
         (model.image[0] == 3 ? "images in colour" : "grey images") + " of " +
         number(model.image[1]) + " x " + number(model.image[2]) +
         " pixels (height x width), from -1 (black) to 1. Others are scaled to cover\nthat size, "
         "and cut to its centre.\n\n" +
         needed_packages(card.packages) + "\n```python\n" + card.imports +
         "\nFOLDER = \"PATH_TO_THIS_FOLDER\"\nCHANNELS, HEIGHT, WIDTH = " + number(model.image[0]) +
         ", " + number(model.image[1]) + ", " + number(model.image[2]) + "\n" + image_reader +
         card.loading + "```\n" + timm_loading(trained) + training_section(trained);
}

}  // namespace accrue::cli
