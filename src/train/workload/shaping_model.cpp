#include <filesystem>
#include <optional>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/bert_io.h"
#include "accrue/models/gguf_magic.h"
#include "accrue/models/gpt2_gguf.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_gguf.h"
#include "accrue/models/llama_io.h"
#include "core/words.h"
#include "train/checkpoint/checkpoint.h"
#include "train/workload/model_factory.h"
#include "train/workload/model_options.h"
#include "train/workload/model_origin.h"

namespace accrue::train {
namespace {

/// Writes the properties of a folder's adapters to the config.
void take_adapters_of_folder(Config& config) {
  LoraConfig& lora = config.model.lora;
  if (lora.from.empty()) return;
  const double dropout = lora.adapters.dropout;
  lora.adapters = models::read_adapter_options(lora.from);
  lora.adapters.dropout = dropout;
}

/// The shape parameters of all language models.
template <class Options>
void put_common_shape(ModelConfig& model, const Options& shape) {
  model.layers = shape.layers;
  model.heads = shape.heads;
  model.width = shape.width;
  model.context = shape.context;
  model.vocab = shape.vocab;
}

/// `value`, but none if it is the default, the only one that earlier versions had.
template <class Value>
std::optional<Value> unless_usual(Value value, Value usual) {
  return value == usual ? std::nullopt : std::optional<Value>(value);
}

void put_shape(ModelConfig& model, const models::Gpt2Options& shape) {
  put_common_shape(model, shape);
  model.ffn_width = unless_usual<std::int64_t>(shape.ffn_width, 0);
  model.norm_eps = unless_usual(shape.norm_eps, models::Gpt2Options().norm_eps);
}

void put_shape(ModelConfig& model, const models::BertOptions& shape) {
  put_common_shape(model, shape);
  model.ffn_width = shape.ffn_width;
  model.token_types = unless_usual(shape.token_types, models::BertOptions().token_types);
  model.norm_eps = unless_usual(shape.norm_eps, models::BertOptions().norm_eps);
}

void put_shape(ModelConfig& model, const models::LlamaOptions& shape) {
  put_common_shape(model, shape);
  model.kv_heads = shape.kv_heads;
  model.ffn_width = shape.ffn_width;
  model.config_json = shape.config_json;
}

/// Notes the tensors of a folder that its model does not have.
template <class Model>
void note_left_out(const std::string& from, const Model& model, std::vector<std::string>& remarks) {
  constexpr std::size_t most_named = 4;
  std::vector<std::string> names = models::tensors_left_out(from, model);
  if (names.empty()) return;
  const std::size_t count = names.size();
  if (count > most_named) names.resize(most_named);
  remarks.push_back(counted(static_cast<std::int64_t>(count), "tensor") + " in " + from +
                    " are none of the model's, and are left out: " + listed(names, "and") +
                    (count > most_named ? ", ..." : ""));
}

/// transformers would apply such an adapter to the model.
void expect_no_adapter_beside(const ModelConfig& model) {
  std::error_code unreadable;
  const std::filesystem::path adapter = std::filesystem::path(model.from) / "adapter_config.json";
  if (!model.lora.from.empty() || !std::filesystem::exists(adapter, unreadable)) return;
  throw usage_error(
      "model.from = \"" + model.from + "\"", "a model without an adapter beside it",
      adapter.string(),
      "lora.from = \"" + model.from +
          "\" to train the two, or moving that file elsewhere to take the model alone");
}

/// Takes the shape of a model that was loaded from files with `positions`, and notes it.
template <class Model>
std::unique_ptr<models::Model> taken(Config& config, std::unique_ptr<Model> model,
                                     std::int64_t positions, std::vector<std::string>& remarks) {
  remarks.push_back(start_in_words(config.model.from, *model));
  note_shorter_context(config.model.kind, positions, model->options().context, remarks);
  put_shape(config.model, model->options());
  return model;
}

models::Gpt2Options gpt2_shape_of_origin(const std::string& from, models::Gpt2Options options) {
  return models::is_gguf(from) ? models::read_gpt2_gguf_shape(from, std::move(options))
                               : models::read_gpt2_shape(from, std::move(options));
}

std::unique_ptr<models::Model> load_gpt2(Config& config, std::vector<std::string>& remarks) {
  const std::string& from = config.model.from;
  const std::optional<std::int64_t> wanted = config.model.context;
  const models::Gpt2Options theirs = gpt2_shape_of_origin(from, gpt2_options(config));
  std::unique_ptr<models::Gpt2> model = models::is_gguf(from)
                                            ? models::load_gpt2_gguf(from, theirs, wanted)
                                            : models::load_gpt2_folder(from, theirs, wanted);
  if (!models::is_gguf(from)) note_left_out(from, *model, remarks);
  return taken(config, std::move(model), theirs.context, remarks);
}

std::unique_ptr<models::Model> load_bert(Config& config, std::vector<std::string>& remarks) {
  const std::string& from = config.model.from;
  const models::BertOptions theirs = models::read_bert_shape(from, bert_options(config));
  auto model = models::load_bert_folder(from, theirs, config.model.context);
  note_left_out(from, *model, remarks);
  return taken(config, std::move(model), theirs.context, remarks);
}

models::LlamaOptions llama_shape_of_origin(const ModelConfig& model) {
  models::LlamaOptions options{.adapters = model.lora.adapters, .base = model.base};
  return models::is_gguf(model.from) ? models::read_llama_gguf_shape(model.from, std::move(options))
                                     : models::read_llama_shape(model.from, std::move(options));
}

std::unique_ptr<models::Model> load_llama(Config& config, std::vector<std::string>& remarks) {
  const std::string& from = config.model.from;
  const std::optional<std::int64_t> wanted = config.model.context;
  std::unique_ptr<models::Llama> model =
      models::is_gguf(from) ? models::load_llama_gguf(from, llama_options(config), wanted)
                            : models::load_llama_folder(from, llama_options(config), wanted);
  if (!models::is_gguf(from)) {
    note_left_out(from, *model, remarks);
    if (models::has_untied_head(from, *model))
      remarks.push_back("the head of " + from +
                        " is not the embedding, though tie_word_embeddings of its config.json says "
                        "so: it is trained apart");
  }
  const std::int64_t positions = llama_shape_of_origin(config.model).context;
  return taken(config, std::move(model), positions, remarks);
}

}  // namespace

std::unique_ptr<models::Model> load_shaping_model(Config& config,
                                                  std::vector<std::string>& remarks) {
  take_adapters_of_folder(config);
  if (const auto origin = run_origin(config.model.from))
    return load_from_run(config, *origin, remarks);
  if (!is_language_model(config.model.kind) || config.model.from.empty()) return nullptr;
  expect_model_files(config.model.from, config.model.kind);
  expect_no_adapter_beside(config.model);
  if (config.model.kind == ModelKind::llama) return load_llama(config, remarks);
  if (config.model.kind == ModelKind::bert) return load_bert(config, remarks);
  return load_gpt2(config, remarks);
}

void take_shape_of_origin(Config& config) {
  take_adapters_of_folder(config);
  const std::optional<std::int64_t> context = config.model.context;
  if (const auto origin = run_origin(config.model.from)) {
    const VerifiedCheckpoint checkpoint(origin->checkpoint, VerifiedCheckpoint::Files::none);
    config = with_shape_of(checkpoint, std::move(config));
  } else if (is_language_model(config.model.kind) && !config.model.from.empty()) {
    expect_model_files(config.model.from, config.model.kind);
    expect_no_adapter_beside(config.model);
    if (config.model.kind == ModelKind::llama) {
      const models::LlamaOptions shape = llama_shape_of_origin(config.model);
      put_shape(config.model, shape);
      config.model.base = shape.base;
    } else if (config.model.kind == ModelKind::bert) {
      put_shape(config.model, models::read_bert_shape(config.model.from, {}));
    } else {
      put_shape(config.model, gpt2_shape_of_origin(config.model.from, {}));
    }
  }
  if (context) config.model.context = context;
}

}  // namespace accrue::train
