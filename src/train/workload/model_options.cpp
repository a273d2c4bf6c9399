#include "train/workload/model_options.h"

#include <array>
#include <cstdint>
#include <utility>

#include "accrue/models/normalisation.h"
#include "models/files/config/llama_config.h"
#include "train/workload/model_factory.h"

namespace accrue::train {
namespace {

std::array<std::int64_t, 3> image_of(const Config& config) {
  const std::vector<std::int64_t>& image = config.model.image;
  return {image.at(0), image.at(1), image.at(2)};
}

}  // namespace

models::LlamaOptions llama_shape(const ModelConfig& model) {
  const std::int64_t context = model.context_or_default();
  if (model.config_json.empty())
    return {.layers = model.layers,
            .heads = model.heads,
            .kv_heads = model.kv_heads.value_or(0),
            .width = model.width,
            .ffn_width = model.ffn_width.value_or(0),
            .context = context,
            .vocab = model.vocab.value_or(byte_vocabulary)};
  models::LlamaOptions shape = models::parse_llama_config(model.config_json, "the run's model", {});
  shape.context = context;
  return shape;
}

models::LossOptions loss_options(const Config& config) {
  return {.label_smoothing = config.loss.label_smoothing,
          .z_loss = config.loss.z_loss,
          .kind = config.loss.kind,
          .beta = config.loss.beta};
}

models::Gpt2Options gpt2_options(const Config& config) {
  return {.layers = config.model.layers,
          .heads = config.model.heads,
          .width = config.model.width,
          .ffn_width = config.model.ffn_width.value_or(0),
          .context = config.model.context_or_default(),
          .vocab = config.model.vocab.value_or(byte_vocabulary),
          .norm_eps = config.model.norm_eps.value_or(models::Gpt2Options().norm_eps),
          .dropout = config.model.dropout,
          .loss = loss_options(config),
          .fused_loss = config.loss.cross_entropy == CrossEntropy::fused,
          .compute = config.precision.compute,
          .seed = config.run.seed,
          .adapters = config.model.lora.adapters};
}

models::LlamaOptions llama_options(const Config& config) {
  models::LlamaOptions options = llama_shape(config.model);
  options.dropout = config.model.dropout;
  options.loss = loss_options(config);
  options.fused_loss = config.loss.cross_entropy == CrossEntropy::fused;
  options.compute = config.precision.compute;
  options.seed = config.run.seed;
  options.adapters = config.model.lora.adapters;
  options.base = config.model.base;
  return options;
}

models::BertOptions bert_options(const Config& config) {
  return {.layers = config.model.layers,
          .heads = config.model.heads,
          .width = config.model.width,
          .ffn_width = config.model.ffn_width.value_or(0),
          .context = config.model.context_or_default(),
          .vocab = config.model.vocab.value_or(byte_vocabulary_of(config.model.kind)),
          .token_types = config.model.token_types.value_or(models::BertOptions().token_types),
          .norm_eps = config.model.norm_eps.value_or(models::BertOptions().norm_eps),
          .dropout = config.model.dropout,
          .loss = loss_options(config),
          .fused_loss = config.loss.cross_entropy == CrossEntropy::fused,
          .compute = config.precision.compute,
          .seed = config.run.seed};
}

models::ResNetOptions resnet_options(const Config& config) {
  return {.layers = config.model.layers,
          .stem = config.model.stem_or_usual(),
          .width = config.model.width,
          .classes = config.model.vocab.value_or(1),
          .image = image_of(config),
          .norm = models::norm_of(config.model.batchnorm),
          .loss = loss_options(config),
          .compute = config.precision.compute,
          .seed = config.run.seed};
}

models::VitOptions vit_options(const Config& config) {
  return {.layers = config.model.layers,
          .heads = config.model.heads,
          .width = config.model.width,
          .patches = config.model.context_or_default(),
          .classes = config.model.vocab.value_or(1),
          .image = image_of(config),
          .dropout = config.model.dropout,
          .loss = loss_options(config),
          .compute = config.precision.compute,
          .seed = config.run.seed};
}

}  // namespace accrue::train
