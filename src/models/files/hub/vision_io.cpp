#include "models/files/hub/vision_io.h"

#include <nlohmann/json.hpp>

#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/hub/model_folder.h"

namespace accrue::models {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* vision_config = "config.json";
constexpr const char* vision_weights = "model.safetensors";
constexpr const char* vision_preprocessor = "preprocessor_config.json";
constexpr double level_mean = 0.5, level_deviation = 0.5;

/// Writes JSON with class names, which are names of folders and so may be any bytes.
void write_json(const std::filesystem::path& file, const Json& value) {
  write_file_atomically(file, value.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

const char* name_of(Compute compute) { return compute == Compute::fp64 ? "float64" : "float32"; }

/// One number if both sides are equal, which every version of transformers can read.
Json side_or_sides(std::int64_t height, std::int64_t width) {
  return height == width ? Json(height) : Json{height, width};
}

Json vit_config(const VitOptions& options, const ImageTask& task) {
  const auto [channels, height, width] = options.image;
  std::int64_t side = 1;
  while (side * side < options.patches) ++side;
  Json label_of = Json::object(), id_of = Json::object();
  for (std::size_t i = 0; i < task.classes.size(); ++i) {
    label_of[std::to_string(i)] = task.classes[i];
    id_of[task.classes[i]] = i;
  }
  return {{"architectures", {"ViTForImageClassification"}},
          {"model_type", "vit"},
          {"image_size", side_or_sides(height, width)},
          {"patch_size", side_or_sides(height / side, width / side)},
          {"num_channels", channels},
          {"hidden_size", options.width},
          {"num_hidden_layers", options.layers},
          {"num_attention_heads", options.heads},
          {"intermediate_size", 4 * options.width},
          {"hidden_act", "gelu_pytorch_tanh"},
          {"layer_norm_eps", 1e-6},
          {"qkv_bias", true},
          {"hidden_dropout_prob", options.dropout},
          {"attention_probs_dropout_prob", options.dropout},
          {"initializer_range", 0.02},
          {"id2label", label_of},
          {"label2id", id_of},
          {"dtype", name_of(options.compute)}};
}

/// States for transformers how data::open_source() processes an image.
Json vit_preprocessor(std::int64_t side) {
  constexpr int bilinear = 2;
  return {{"image_processor_type", "CLIPImageProcessor"},
          {"do_convert_rgb", true},
          {"do_resize", true},
          {"size", {{"shortest_edge", side}}},
          {"resample", bilinear},
          {"do_center_crop", true},
          {"crop_size", {{"height", side}, {"width", side}}},
          {"do_rescale", true},
          {"rescale_factor", 1.0 / 255},
          {"do_normalize", true},
          {"image_mean", {level_mean, level_mean, level_mean}},
          {"image_std", {level_deviation, level_deviation, level_deviation}}};
}

/// A number for each channel, in timm's form.
Json of_each_channel(double value, const ImageTask& task) {
  return Json(std::vector<double>(static_cast<std::size_t>(task.image[0]), value));
}

Json timm_config(const std::string& architecture, const ImageTask& task) {
  return {{"architecture", architecture},
          {"num_classes", task.classes.size()},
          {"label_names", task.classes},
          {"pretrained_cfg",
           {{"input_size", task.image},
            {"num_classes", task.classes.size()},
            {"mean", of_each_channel(level_mean, task)},
            {"std", of_each_channel(level_deviation, task)},
            {"interpolation", "bilinear"},
            {"crop_pct", 1.0},
            {"crop_mode", "center"}}}};
}

}  // namespace

void save_vit_folder(const std::filesystem::path& folder, const Vit& model, const ImageTask& task) {
  const auto [channels, height, width] = model.options().image;
  prepare_model_folder(folder, {vision_config, vision_weights, vision_preprocessor});
  write_safetensors(folder / vision_weights, model.file_tensors(), {{"format", "pt"}});
  if (channels == 3 && height == width)
    write_json(folder / vision_preprocessor, vit_preprocessor(height));
  write_json(folder / vision_config, vit_config(model.options(), task));
}

std::optional<std::string> timm_name(const ResNetOptions& options) {
  constexpr std::int64_t width = 64;
  const bool has_norm = options.norm == Norm::batch || options.norm == Norm::layer;
  if (options.stem != Stem::conv7x7 || options.width != width || !has_norm) return std::nullopt;
  return "resnet" + std::to_string(options.layers);
}

void save_resnet_folder(const std::filesystem::path& folder, const ResNet& model,
                        const ImageTask& task) {
  prepare_model_folder(folder, {vision_config, vision_weights});
  write_safetensors(folder / vision_weights, model.file_tensors(), {{"format", "pt"}});
  const ResNetOptions& options = model.options();
  // A name unknown to timm if it has no such network, so that it does not make another one.
  const std::string family = options.stem == Stem::conv7x7 ? "imagenet_resnet" : "cifar_resnet";
  const std::optional<std::string> name = timm_name(options);
  Json config = timm_config(name.value_or(family + std::to_string(options.layers)), task);
  config["pretrained_cfg"]["first_conv"] = "conv1";
  config["pretrained_cfg"]["classifier"] = "fc";
  if (name && options.norm == Norm::layer) config["model_args"]["norm_layer"] = "groupnorm1";
  config["network"] = {{"layers", options.layers},
                       {"stem", to_string(options.stem)},
                       {"width", options.width},
                       {"norm", norm_words.of(options.norm)}};
  write_json(folder / vision_config, config);
}

void save_torchscript_folder(const std::filesystem::path& folder, const TorchScriptModel& model,
                             const ImageTask& task) {
  constexpr const char* module_file = "model.pt";
  prepare_model_folder(folder, {vision_config, module_file});
  model.save(folder / module_file);
  if (!task.classes.empty()) write_json(folder / vision_config, timm_config("torchscript", task));
}

}  // namespace accrue::models
