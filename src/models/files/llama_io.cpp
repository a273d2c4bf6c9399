#include "accrue/models/llama_io.h"

#include "accrue/models/adapter_io.h"
#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/hub_weights.h"
#include "models/files/llama_config.h"
#include "models/files/model_folder.h"
#include "models/files/named_tensors.h"

namespace accrue::models {
namespace {

constexpr const char* llama_weights = "weights of a Llama of this shape";

/// Frequencies of rotary positions that older versions of transformers saved.
bool is_frequency(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

HubNames names_of(const Llama& model) {
  return {.prefix = "model.",
          .embedding = "model.embed_tokens.weight",
          .tied_head = model.options().variant.tied_head,
          .is_no_weight = is_frequency};
}

}  // namespace

LlamaOptions read_llama_shape(const std::filesystem::path& folder, LlamaOptions options) {
  const std::filesystem::path config = folder / "config.json";
  return parse_llama_config(read_file(config), config.string(), std::move(options));
}

std::unique_ptr<Llama> load_llama_folder(const std::filesystem::path& folder, LlamaOptions options,
                                         std::optional<std::int64_t> context) {
  options = read_llama_shape(folder, std::move(options));
  const auto [tensors, origin] = open_hub_weights(folder);
  if (context) {
    check_context(*context, options.context, origin);
    options.context = *context;
  }
  auto model = std::make_unique<Llama>(options, Initialisation::zeros);
  load_llama_tensors(*model, tensors, origin);
  return model;
}

void save_llama_folder(const std::filesystem::path& folder, const Llama& model) {
  const std::string config = make_llama_config(model.options());
  prepare_model_folder(folder, {"config.json", "model.safetensors"});
  write_stored_safetensors(folder / "model.safetensors", merged_parameters(model),
                           {{"format", "pt"}});
  write_file_atomically(folder / "config.json", config);
}

void load_llama_tensors(Llama& model, const StoredTensors& tensors, const std::string& origin) {
  const StoredTensors given = as_hub_weights(tensors, names_of(model), origin, llama_weights);
  check_by_name(targets_of(model.file_tensors(), tensors), given, origin, llama_weights);
  take_formats(model.parameters(), given);
  const NamedParameters all = model.file_tensors(), targets = targets_of(all, tensors);
  copy_by_name(targets, given, origin, llama_weights);
  if (targets.size() < all.size()) model.restart_adapters();
}

}  // namespace accrue::models
