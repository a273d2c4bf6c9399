#include "accrue/models/llama_io.h"

#include <nlohmann/json.hpp>

#include "accrue/models/adapter_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/config/llama_config.h"
#include "models/files/hub/hub_weights.h"
#include "models/files/hub/model_folder.h"
#include "models/files/tensors/named_tensors.h"

namespace accrue::models {
namespace {

constexpr const char* llama_weights = "weights of a Llama of this shape";

/// Frequencies of rotary positions that older versions of transformers saved.
bool is_frequency(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

HubNames names_of(const LlamaVariant& variant) {
  return {.prefix = "model.",
          .embedding = "model.embed_tokens.weight",
          .tied_head = variant.tied_head,
          .is_no_weight = is_frequency};
}

NameAsWeights named_as_llama(const LlamaVariant& variant, const std::string& origin) {
  return [names = names_of(variant), origin](const StoredTensors& tensors) {
    return as_hub_weights(tensors, names, origin, llama_weights);
  };
}

/// transformers ties a head to the embedding only if they are equal.
bool unties_its_head(const LlamaVariant& variant, const HubWeights& weights) {
  return variant.tied_head && has_another_head(weights.tensors, names_of(variant));
}

/// The options with a separate head, also in their config.json.
LlamaOptions untied(LlamaOptions options) {
  nlohmann::json config = nlohmann::json::parse(options.config_json);
  config["tie_word_embeddings"] = false;
  options.config_json = config.dump(2) + '\n';
  options.variant.tied_head = false;
  return options;
}

LlamaOptions read_stated_shape(const std::filesystem::path& folder, LlamaOptions options) {
  const std::filesystem::path config = folder / "config.json";
  return parse_llama_config(read_file(config), config.string(), std::move(options));
}

}  // namespace

LlamaOptions read_llama_shape(const std::filesystem::path& folder, LlamaOptions options) {
  options = read_stated_shape(folder, std::move(options));
  if (!options.variant.tied_head) return options;
  const std::optional<HubWeights> weights = find_hub_weights(folder);
  return weights && unties_its_head(options.variant, *weights) ? untied(std::move(options))
                                                               : options;
}

std::unique_ptr<Llama> load_llama_folder(const std::filesystem::path& folder, LlamaOptions options,
                                         std::optional<std::int64_t> context) {
  options = read_stated_shape(folder, std::move(options));
  const HubWeights weights = open_hub_weights(folder);
  const std::string origin = weights.origin.string();
  if (unties_its_head(options.variant, weights)) options = untied(std::move(options));
  if (context) {
    check_context(*context, options.context, origin);
    options.context = *context;
  }
  auto model = std::make_unique<Llama>(options, Initialisation::zeros);
  load_llama_tensors(
      *model,
      weights_of_model(weights, model->file_tensors(), named_as_llama(options.variant, origin)),
      origin);
  return model;
}

std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Llama& model) {
  const HubWeights weights = open_hub_weights(folder);
  return left_out_names(weights, model.file_tensors(),
                        named_as_llama(model.options().variant, weights.origin.string()));
}

bool has_untied_head(const std::filesystem::path& folder, const Llama& model) {
  return !model.options().variant.tied_head && read_stated_shape(folder, {}).variant.tied_head;
}

void save_llama_folder(const std::filesystem::path& folder, const Llama& model) {
  const std::string config = make_llama_config(model.options());
  prepare_model_folder(folder, {"config.json", "model.safetensors"});
  write_stored_safetensors(folder / "model.safetensors", merged_parameters(model),
                           {{"format", "pt"}});
  write_file_atomically(folder / "config.json", config);
}

void load_llama_tensors(Llama& model, const StoredTensors& tensors, const std::string& origin) {
  const StoredTensors given =
      as_hub_weights(tensors, names_of(model.options().variant), origin, llama_weights);
  check_by_name(targets_of(model.file_tensors(), tensors), given, origin, llama_weights);
  take_formats(model.parameters(), given);
  const NamedParameters all = model.file_tensors(), targets = targets_of(all, tensors);
  copy_by_name(targets, given, origin, llama_weights);
  if (targets.size() < all.size()) model.restart_adapters();
}

}  // namespace accrue::models
