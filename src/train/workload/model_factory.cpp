#include "train/workload/model_factory.h"

#include <ATen/ATen.h>

#include <filesystem>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/offload_passes.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/bert.h"
#include "accrue/models/custom_model.h"
#include "accrue/models/freeze.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/resnet.h"
#include "accrue/models/safetensors.h"
#include "accrue/models/torchscript.h"
#include "accrue/models/vit.h"
#include "accrue/train/custom.h"
#include "core/cause.h"
#include "data/fetch.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/finite.h"
#include "train/workload/admitted_model.h"
#include "train/workload/model_options.h"
#include "train/workload/token_masking.h"

namespace accrue::train {
namespace {

bool takes_images(const Config& config) {
  return config.model.kind == ModelKind::vit || config.model.kind == ModelKind::resnet;
}

void expect_images(const Config& config, const data::Source& source) {
  if (source.image_shape().has_value() == takes_images(config)) return;
  const bool images = source.image_shape().has_value();
  throw usage_error(
      "model.kind", images ? "a model of images" : "data of images",
      std::string(to_string(config.model.kind)) + (images ? " and images" : " and text or tokens"),
      images ? "kind = \"resnet\" or \"vit\" in [model]"
             : "format = \"images\" in [data], or kind = \"gpt2\", \"llama\" or \"bert\"");
}

/// A run's model has the shape of the images that it was trained on.
void fit_image(Config& config, const data::ImageShape& image) {
  const std::vector<std::int64_t> of_data{image.channels, image.height, image.width};
  std::vector<std::int64_t>& of_model = config.model.image;
  if (!of_model.empty() && of_model != of_data)
    throw usage_error("data.train with model.from = \"" + config.model.from + "\"",
                      "images of " + image_in_words(of_model) + ", as that model takes",
                      image_in_words(of_data), "images of that size, or another model.from");
  of_model = of_data;
}

/// Whether each id was checked when the files were opened: so it is for text that a tokenizer
/// tokenizes, whose vocabulary may be larger than the ids that occur.
bool has_checked_ids(const Config& config, const data::Source& train) {
  const bool is_of_program = config.custom && config.custom->train;
  return !is_of_program && train.has_text() && train.tokenizer() != nullptr;
}

void fit_vocabulary(Config& config, std::int64_t of_data, bool has_checked_ids) {
  if (is_foreign(config.model.kind)) {  // its size cannot change
    config.model.vocab = config.model.vocab.value_or(of_data);
    return;
  }
  if (of_data == 0 && !config.model.vocab) {
    throw usage_error("model.vocab", "the vocabulary's size, since token files do not tell it",
                      "nothing", "vocab = 50304 in [model], or what the tokenizer has");
  }
  if (!config.model.vocab) config.model.vocab = of_data;
  if (of_data <= *config.model.vocab || has_checked_ids) return;
  throw usage_error(
      "model.vocab", "at least the data's " + std::to_string(of_data),
      std::to_string(*config.model.vocab),
      config.model.has_shape_of_folder() ? "a model.from with as many" : "leaving model.vocab out");
}

void expect_finite(const Config& config, const models::Model& model) {
  const auto are_finite = [](const at::Tensor& tensor) {
    memory::keep_only(tensor);
    if (kernels::is_in_blocks(tensor))
      return kernels::all_finite(kernels::unpacked(tensor, at::kFloat));
    if (!memory::is_kept_in_part(tensor)) return kernels::all_finite(tensor.detach());
    const ElementRange kept = memory::kept_part(tensor);
    return kernels::all_finite(tensor.detach().view({-1}).narrow(0, kept.begin, kept.elements));
  };
  for (const NamedParameter& p : model.parameters()) {
    if (!are_finite(p.tensor))
      throw usage_error("load " + config.model.from, "finite parameters",
                        "'" + p.name + "' with a NaN or an infinity",
                        "a checkpoint from before the training that made it diverged");
  }
}

/// The file with the weights: `from` itself, or the one in an exported folder.
std::filesystem::path weights_file(const std::filesystem::path& from) {
  std::error_code none;
  return std::filesystem::is_directory(from, none) ? from / "model.safetensors" : from;
}

std::string running_on_a_sample(const Config& config) {
  return "run " + config.model.from + " on a sample";
}

std::string inputs_in_words(const batch::MicroBatch& sample) {
  return c10::str("inputs ", sample.inputs.scalar_type(), ' ', sample.inputs.sizes());
}

/// Throws if a single output is not the logits of the labels.
void expect_logits(const Config& config, const data::Source& train, const batch::MicroBatch& sample,
                   const at::Tensor& logits) {
  const std::int64_t classes = config.model.vocab.value_or(0);
  // Logits of images with masks are [B, K, H, W], as in torch.
  const at::Tensor rows = train.has_masks() && logits.dim() == 4 ? logits.movedim(1, -1) : logits;
  const bool fits = rows.dim() == sample.targets.dim() + 1 &&
                    rows.sizes().slice(0, static_cast<std::size_t>(sample.targets.dim())) ==
                        sample.targets.sizes() &&
                    rows.size(-1) >= classes;
  if (fits) return;
  const std::string outputs = classes > 0 ? std::to_string(classes) + " or more" : "the vocabulary";
  const at::IntArrayRef sizes = sample.targets.sizes();
  throw usage_error(running_on_a_sample(config),
                    train.has_masks() ? c10::str("logits [", sizes[0], ", K, ", sizes[1], ", ",
                                                 sizes[2], "], K being ", outputs)
                                      : c10::str("logits ", sizes, " x ", outputs),
                    c10::str(logits.sizes(), " for ", inputs_in_words(sample)),
                    "a module made for these data, or other data");
}

void expect_to_take_a_sample(const Config& config, models::Model& model,
                             const data::Source& train) {
  const batch::MicroBatch sample = data::fetch_one(train);
  const ForwardContext context = batch::evaluation_context(sample);
  const bool has_usual_loss = config.loss.heads.empty() && config.loss.method.empty();
  try {
    const at::NoGradGuard no_grad;
    const models::Activations outputs = models::run_segments(model, sample, context);
    if (has_usual_loss && sample.targets.defined())
      expect_logits(config, train, sample, outputs.at(0));
    for (const models::LossHead& head : model.losses()) head.forward(outputs, sample, context, 1);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::runtime) throw;
    throw usage_error(running_on_a_sample(config), error.expected(), error.received(),
                      error.suggestion());
  } catch (const std::exception& error) {
    throw usage_error(running_on_a_sample(config), "a module that takes " + inputs_in_words(sample),
                      cause_of(error), "a module made for these data, or other data");
  }
}

}  // namespace

void fit_model_to_data(Config& config, const data::Source& train) {
  if (config.model.kind == ModelKind::torchscript && config.data.packing)
    throw usage_error("data.packing", "a model that keeps the samples of a row apart",
                      "model.kind \"torchscript\", which does not receive their boundaries",
                      "packing = false");
  if (!is_foreign(config.model.kind)) expect_images(config, train);
  if (const auto image = train.image_shape()) {
    fit_image(config, *image);
    config.model.classes = train.classes();
  }
  fit_vocabulary(config, vocabulary_of(config, train), has_checked_ids(config, train));
}

void check_loaded_model(const Config& config, models::Model& model, const data::Source& train) {
  if (config.model.from.empty()) return;
  expect_finite(config, model);
  if (config.model.kind == ModelKind::torchscript) expect_to_take_a_sample(config, model, train);
}

void apply_adapters_and_freeze(const Config& config, models::Model& model,
                               std::vector<std::string>& remarks) {
  const std::string& adapter = config.model.lora.from;
  if (auto* language_model = dynamic_cast<models::LanguageModel*>(&model);
      language_model != nullptr && !adapter.empty()) {
    models::load_adapter_folder(adapter, *language_model);
    remarks.push_back("adapters start as " + adapter + " has them");
  }
  models::freeze_parameters(model, config.model.freeze);
  const std::int64_t all = models::parameter_count(model),
                     trained = models::trained_parameter_count(model);
  if (trained < all)
    remarks.push_back(format_count(static_cast<double>(trained)) + " of " +
                      format_count(static_cast<double>(all)) + " parameters are trained");
}

namespace {

using models::Initialisation;

std::unique_ptr<models::Model> make_custom_model(const Config& config) {
  if (!config.custom || !config.custom->model)
    throw usage_error("model.kind = \"custom\"", "the program that brings the model",
                      "a command without one", "the program that began the run, in accrue's place");
  std::unique_ptr<models::Trainable> trainable = config.custom->model(config);
  if (!trainable)
    throw usage_error("model.kind = \"custom\"", "a model of the program's function", "null",
                      "returning accrue::train::trainable(model, loss_fn)");
  return std::make_unique<models::CustomModel>(std::move(trainable), config.precision.compute);
}

std::unique_ptr<models::Model> make_whole_model(const Config& config, Initialisation values,
                                                const AdmitModule& admit) {
  if (config.model.kind == ModelKind::custom) return make_custom_model(config);
  if (config.model.kind == ModelKind::resnet)
    return std::make_unique<models::ResNet>(resnet_options(config), values);
  if (config.model.kind == ModelKind::vit)
    return std::make_unique<models::Vit>(vit_options(config), values);
  if (config.model.kind == ModelKind::torchscript)
    return std::make_unique<models::TorchScriptModel>(
        models::TorchScriptOptions{.file = config.model.from,
                                   .compute = config.precision.compute,
                                   .loss = loss_options(config),
                                   .heads = config.loss.heads,
                                   .method = config.loss.method,
                                   .admit = admit});
  if (config.model.kind == ModelKind::llama)
    return std::make_unique<models::Llama>(llama_options(config), values);
  if (config.model.kind == ModelKind::bert)
    return std::make_unique<models::Bert>(bert_options(config), values);
  return std::make_unique<models::Gpt2>(gpt2_options(config), values);
}

std::unique_ptr<models::Model> make_frozen_model(const Config& config, Initialisation values,
                                                 const AdmitModule& admit = {}) {
  std::unique_ptr<models::Model> model = make_whole_model(config, values, admit);
  models::freeze_parameters(*model, config.model.freeze);
  if (config.model.accelerate == Accelerate::on) model->accelerate(true);
  return model;
}

}  // namespace

std::unique_ptr<models::Model> make_model(const Config& config) {
  return make_frozen_model(config, Initialisation::random);
}

std::unique_ptr<models::Model> make_model_to_load(const Config& config) {
  return make_frozen_model(config, Initialisation::zeros);
}

std::unique_ptr<models::Model> make_admitted_model(const Config& config, const AdmitModule& admit) {
  return make_frozen_model(config, Initialisation::zeros, admit);
}

std::unique_ptr<models::Model> make_model_shapes(const Config& config) {
  return make_frozen_model(config, Initialisation::shapes);
}

std::unique_ptr<models::Model> make_initial_model(const Config& config) {
  std::unique_ptr<models::Model> model = make_model(config);
  if (!config.model.from.empty() && takes_images(config)) {
    const std::filesystem::path weights = weights_file(config.model.from);
    model->load_file_tensors(models::open_safetensors(weights).tensors, weights.string());
  }
  return model;
}

}  // namespace accrue::train
