#include "accrue/models/bert_io.h"

#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/bert_config.h"
#include "models/files/hub_weights.h"
#include "models/files/model_folder.h"

namespace accrue::models {

BertOptions read_bert_shape(const std::filesystem::path& folder, BertOptions options) {
  const std::filesystem::path config = folder / "config.json";
  return parse_bert_config(read_file(config), config.string(), options);
}

StoredTensors with_first_bert_positions(StoredTensors tensors, std::int64_t positions,
                                        std::int64_t context, const std::string& origin) {
  return with_first_rows(
      std::move(tensors), {positions, context}, origin,
      [](const std::string& name) { return name == "bert.embeddings.position_embeddings.weight"; });
}

std::unique_ptr<Bert> load_bert_folder(const std::filesystem::path& folder, BertOptions options,
                                       std::optional<std::int64_t> context) {
  options = read_bert_shape(folder, options);
  const auto [tensors, origin] = open_hub_weights(folder);
  const std::int64_t positions = options.context;
  options.context = context.value_or(positions);
  const StoredTensors fitting =
      with_first_bert_positions(tensors, positions, options.context, origin);
  auto model = std::make_unique<Bert>(options, Initialisation::zeros);
  model->load_file_tensors(fitting, origin);
  return model;
}

void save_bert_folder(const std::filesystem::path& folder, const Bert& model) {
  prepare_model_folder(folder, {"config.json", "model.safetensors"});
  write_safetensors(folder / "model.safetensors", model.file_tensors(), {{"format", "pt"}});
  write_file_atomically(folder / "config.json", make_bert_config(model.options()));
}

}  // namespace accrue::models
