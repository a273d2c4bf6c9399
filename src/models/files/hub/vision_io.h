#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accrue/models/resnet.h"
#include "accrue/models/torchscript.h"
#include "accrue/models/vit.h"

namespace accrue::models {

/// The images and classes of an image classifier, in addition to its weights.
struct ImageTask {
  std::array<std::int64_t, 3> image{3, 32, 32};  ///< channels, height, width
  std::vector<std::string> classes;              ///< a name for each output
};

/// Each writes a folder (created if it does not exist) that states how its images are prepared:
/// pixels scaled to [0, 1], then normalised with mean and deviation 0.5. Throws a usage Error if a
/// model is in it already.
///
/// Writes a folder that transformers' ViTForImageClassification.from_pretrained loads: config.json
/// with the class names, and model.safetensors. Square images in colour also get
/// preprocessor_config.json, with which AutoImageProcessor scales and crops like
/// data::open_source() (by its CLIPImageProcessor, which does both; if a margin is odd it takes the
/// other pixel).
void save_vit_folder(const std::filesystem::path& folder, const Vit& model, const ImageTask& task);

/// timm's name for such a network; none if it has no name: those with a stem of 3x3, of another
/// width than 64, or with other norms than batch and layer normalisation.
std::optional<std::string> timm_name(const ResNetOptions& options);

/// Writes model.safetensors with torchvision's names, and config.json in the form of timm's on the
/// Hub (architecture, num_classes, label_names, model_args, pretrained_cfg), with the options of
/// the network as "network". timm.create_model("local-dir:FOLDER", pretrained=True) loads a network
/// that it has (timm_name()); other networks have no name there.
void save_resnet_folder(const std::filesystem::path& folder, const ResNet& model,
                        const ImageTask& task);

/// Writes model.pt, which torch.jit.load reads, with the present values, and a config.json like
/// save_resnet_folder().
void save_torchscript_folder(const std::filesystem::path& folder, const TorchScriptModel& model,
                             const ImageTask& task);

}  // namespace accrue::models
