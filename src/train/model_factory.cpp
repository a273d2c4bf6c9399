#include "model_factory.h"

#include "accrue/core/error.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/normalisation.h"
#include "accrue/models/resnet.h"
#include "accrue/models/safetensors.h"
#include "accrue/models/torchscript.h"
#include "accrue/models/vit.h"

namespace accrue::train {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

models::Gpt2Options gpt2_options(const Config& config) {
  return {.layers = config.model.layers,
          .heads = config.model.heads,
          .width = config.model.width,
          .context = config.model.context,
          .vocab = config.model.vocab.value_or(byte_vocabulary),
          .dropout = config.model.dropout,
          .compute = compute_of(config),
          .seed = config.run.seed};
}

bool takes_images(const Config& config) {
  return config.model.kind == "vit" || config.model.kind == "resnet";
}

std::array<std::int64_t, 3> image_of(const Config& config) {
  const std::vector<std::int64_t>& image = config.model.image;
  return {image.at(0), image.at(1), image.at(2)};
}

models::ResNetOptions resnet_options(const Config& config) {
  return {.layers = config.model.layers,
          .width = config.model.width,
          .classes = config.model.vocab.value_or(1),
          .image = image_of(config),
          .norm = models::norm_of(models::batch_norm_policy(config.model.batchnorm)),
          .compute = compute_of(config),
          .seed = config.run.seed};
}

models::VitOptions vit_options(const Config& config) {
  return {.layers = config.model.layers,
          .heads = config.model.heads,
          .width = config.model.width,
          .patches = config.model.context,
          .classes = config.model.vocab.value_or(1),
          .image = image_of(config),
          .dropout = config.model.dropout,
          .compute = compute_of(config),
          .seed = config.run.seed};
}

void expect_images(const Config& config, const data::Source& source) {
  if (source.image_shape().has_value() == takes_images(config)) return;
  const bool images = source.image_shape().has_value();
  throw usage_error("model.kind", images ? "a model of images" : "data of images",
                    config.model.kind + (images ? " and images" : " and text or tokens"),
                    images ? "kind = \"resnet\" or \"vit\" in [model]"
                           : "format = \"images\" in [data], or kind = \"gpt2\"");
}

void fit_vocabulary(Config& config, std::int64_t of_data) {
  if (config.model.kind == "torchscript") {  // which has the size it has
    config.model.vocab = config.model.vocab.value_or(of_data);
    return;
  }
  if (of_data == 0 && !config.model.vocab) {
    throw usage_error("model.vocab", "the vocabulary's size, since token files do not tell it",
                      "nothing", "vocab = 50304 in [model], or what the tokenizer has");
  }
  if (!config.model.vocab) config.model.vocab = of_data;
  if (of_data <= *config.model.vocab) return;
  throw usage_error("model.vocab", "at least the data's " + std::to_string(of_data),
                    std::to_string(*config.model.vocab), "leaving model.vocab out");
}

}  // namespace

models::Compute compute_of(const Config& config) {
  if (config.precision.compute == "bf16") return models::Compute::bf16;
  if (config.precision.compute == "fp64") return models::Compute::fp64;
  return models::Compute::fp32;
}

std::unique_ptr<models::Model> load_shaping_model(Config& config) {
  if (config.model.kind != "gpt2" || config.model.from.empty()) return nullptr;
  std::unique_ptr<models::Gpt2> model =
      models::load_gpt2_folder(config.model.from, gpt2_options(config));
  const models::Gpt2Options& shape = model->options();
  config.model.layers = shape.layers;
  config.model.heads = shape.heads;
  config.model.width = shape.width;
  config.model.context = shape.context;
  config.model.vocab = shape.vocab;
  return model;
}

void fit_model_to_data(Config& config, const Datasets& data) {
  if (config.model.kind != "torchscript") expect_images(config, *data.train);
  if (const auto image = data.train->image_shape())
    config.model.image = {image->channels, image->height, image->width};
  fit_vocabulary(config, data.train->vocab());
}

std::unique_ptr<models::Model> make_model(const Config& config) {
  if (config.model.kind == "resnet")
    return std::make_unique<models::ResNet>(resnet_options(config));
  if (config.model.kind == "vit") return std::make_unique<models::Vit>(vit_options(config));
  if (config.model.kind == "torchscript")
    return std::make_unique<models::TorchScriptModel>(
        models::TorchScriptOptions{.file = config.model.from, .compute = compute_of(config)});
  return std::make_unique<models::Gpt2>(gpt2_options(config));
}

std::unique_ptr<models::Model> make_initial_model(const Config& config) {
  std::unique_ptr<models::Model> model = make_model(config);
  if (!config.model.from.empty() && takes_images(config))
    model->load_file_tensors(models::read_safetensors(config.model.from).tensors,
                             config.model.from);
  return model;
}

}  // namespace accrue::train
