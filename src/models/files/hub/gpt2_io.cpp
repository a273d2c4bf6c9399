#include "accrue/models/gpt2_io.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "accrue/core/error.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/config/gpt2_config.h"
#include "models/files/hub/hub_weights.h"
#include "models/files/hub/model_folder.h"
#include "models/files/tensors/named_tensors.h"

namespace accrue::models {
namespace {

constexpr std::string_view position_embedding = "transformer.wpe.weight";
constexpr const char* gpt2_weights = "weights of a GPT-2 of this shape";

/// Hugging Face stores these as Conv1D, [in, out].
bool is_transposed(std::string_view name) {
  constexpr std::array<std::string_view, 4> matrices{".attn.c_attn.weight", ".attn.c_proj.weight",
                                                     ".mlp.c_fc.weight", ".mlp.c_proj.weight"};
  return std::any_of(matrices.begin(), matrices.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// Causal masks that older versions of transformers saved like weights.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

constexpr HubNames gpt2_names{.prefix = "transformer.",
                              .embedding = "transformer.wte.weight",
                              .tied_head = true,
                              .is_no_weight = is_mask};

NameAsWeights named_as_gpt2(const std::string& origin) {
  return [origin](const StoredTensors& tensors) {
    return as_hub_weights(tensors, gpt2_names, origin, gpt2_weights);
  };
}

}  // namespace

NamedParameters to_hugging_face(const NamedParameters& parameters) {
  NamedParameters result;
  for (const auto& [name, tensor] : parameters)
    result.push_back({name, is_transposed(name) ? tensor.detach().t() : tensor.detach()});
  return result;
}

StoredTensors to_hugging_face(StoredTensors parameters) {
  for (StoredTensor& parameter : parameters) {
    if (!is_transposed(parameter.name)) continue;
    std::swap(parameter.shape.at(0), parameter.shape.at(1));
    parameter.copy_to = [copy = parameter.copy_to](const at::Tensor& target) { copy(target.t()); };
  }
  return parameters;
}

void load_hugging_face(Gpt2& model, const StoredTensors& tensors, const std::string& origin) {
  // The targets are views of the parameters and share their version counters, so that cached copies
  // are made again.
  const NamedParameters all = to_hugging_face(model.parameters()),
                        targets = targets_of(all, tensors);
  copy_by_name(targets, as_hub_weights(tensors, gpt2_names, origin, gpt2_weights), origin,
               gpt2_weights);
  if (targets.size() < all.size()) model.restart_adapters();
}

StoredTensors with_first_positions(StoredTensors tensors, std::int64_t positions,
                                   std::int64_t context, const std::string& origin) {
  return with_first_rows(std::move(tensors), {positions, context}, origin,
                         [](const std::string& name) {
                           return full_hub_name(name, gpt2_names) == position_embedding;
                         });
}

Gpt2Options read_gpt2_shape(const std::filesystem::path& folder, Gpt2Options options) {
  const std::filesystem::path config = folder / "config.json";
  return parse_gpt2_config(read_file(config), config.string(), options);
}

std::unique_ptr<Gpt2> load_gpt2_folder(const std::filesystem::path& folder, Gpt2Options options,
                                       std::optional<std::int64_t> context) {
  options = read_gpt2_shape(folder, options);
  HubWeights weights = open_hub_weights(folder);
  const std::string origin = weights.origin.string();
  const std::int64_t positions = options.context;
  options.context = context.value_or(positions);
  weights.tensors =
      with_first_positions(std::move(weights.tensors), positions, options.context, origin);
  auto model = std::make_unique<Gpt2>(options, Initialisation::zeros);
  load_hugging_face(*model, weights_of_model(weights, model->file_tensors(), named_as_gpt2(origin)),
                    origin);
  return model;
}

std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Gpt2& model) {
  const HubWeights weights = open_hub_weights(folder);
  return left_out_names(weights, model.file_tensors(), named_as_gpt2(weights.origin.string()));
}

void save_gpt2_folder(const std::filesystem::path& folder, const Gpt2& model) {
  prepare_model_folder(folder, {"config.json", "model.safetensors"});
  write_stored_safetensors(folder / "model.safetensors", to_hugging_face(merged_parameters(model)),
                           {{"format", "pt"}});
  write_file_atomically(folder / "config.json", make_gpt2_config(model.options()));
}

}  // namespace accrue::models
