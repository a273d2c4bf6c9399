#include "accrue/models/bert_io.h"

#include "accrue/models/safetensors.h"
#include "core/atomic_file.h"
#include "models/files/config/bert_config.h"
#include "models/files/hub/bert_names.h"
#include "models/files/hub/hub_weights.h"
#include "models/files/hub/model_folder.h"

namespace accrue::models {
namespace {

NameAsWeights named_as_bert(const std::string& origin) {
  return [origin](const StoredTensors& tensors) { return as_bert_weights(tensors, origin); };
}

}  // namespace

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
  HubWeights weights = open_hub_weights(folder);
  const std::string origin = weights.origin.string();
  const std::int64_t positions = options.context;
  options.context = context.value_or(positions);
  weights.tensors =
      with_first_bert_positions(std::move(weights.tensors), positions, options.context, origin);
  auto model = std::make_unique<Bert>(options, Initialisation::zeros);
  model->load_file_tensors(weights_of_model(weights, model->file_tensors(), named_as_bert(origin)),
                           origin);
  return model;
}

std::vector<std::string> tensors_left_out(const std::filesystem::path& folder, const Bert& model) {
  const HubWeights weights = open_hub_weights(folder);
  return left_out_names(weights, model.file_tensors(), named_as_bert(weights.origin.string()));
}

void save_bert_folder(const std::filesystem::path& folder, const Bert& model) {
  prepare_model_folder(folder, {"config.json", "model.safetensors"});
  write_safetensors(folder / "model.safetensors", model.file_tensors(), {{"format", "pt"}});
  write_file_atomically(folder / "config.json", make_bert_config(model.options()));
}

}  // namespace accrue::models
