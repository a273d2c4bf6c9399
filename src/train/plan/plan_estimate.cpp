#include "train/plan/plan_estimate.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "accrue/core/error.h"
#include "batch/schedule.h"
#include "data/files/suffix.h"
#include "kernels/blocks/block_matrix.h"
#include "memory/size_class.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/plan/llama_activations.h"
#include "train/plan/storage.h"
#include "train/workload/batch_changes.h"
#include "train/workload/model_factory.h"
#include "train/workload/text_tokenizer.h"

namespace accrue::train {
namespace {

constexpr const char* estimating = "plan --estimate";

/// The activations of a model's shape.
struct ModelFigures {
  std::int64_t sixteen_bit_sample_bytes = 0;
  std::vector<RunEstimate::Mode> modes;
};

/// Whether the data are text by their names alone: a pattern for files of any suffix is not enough.
bool is_text(const DataConfig& data) {
  if (data.format) return data.format == data::Format::text;
  return std::ranges::all_of(data.train, [](const std::string& pattern) {
    const std::string suffix = data::suffix_of(pattern);
    return suffix.size() > 1 && suffix.find_first_of("*?[") == std::string::npos &&
           data::format_by_suffix(pattern) == data::Format::text;
  });
}

std::int64_t classes_of(const Config& config) {
  if (config.model.vocab) return *config.model.vocab;
  if (is_language_model(config.model.kind) && is_text(config.data)) {
    const std::shared_ptr<const data::Tokenizer> tokenizer = tokenizer_of(config)();
    return tokenizer ? tokenizer->vocab() : byte_vocabulary_of(config.model.kind);
  }
  throw usage_error(estimating, "model.vocab, as the data are not read", "nothing",
                    "--model.vocab=50304 (of images: the number of classes)");
}

std::vector<std::int64_t> image_of(const Config& config, const EstimateOptions& options) {
  if (options.image.size() == 3) return options.image;
  if (!config.model.image.empty()) return config.model.image;
  throw usage_error(estimating, "the images' channels, height and width, as the data are not read",
                    "nothing", "--image 3x32x32");
}

std::vector<Recompute> modes_of(const Config& config) {
  if (config.memory.recompute) return {*config.memory.recompute};
  if (layered_key(config)) return {Recompute::none};
  return {Recompute::none, Recompute::selective, Recompute::full};
}

/// The config with everything that the model's shape needs.
Config with_shape(Config config, const EstimateOptions& options) {
  take_shape_of_origin(config);
  config.model.vocab = classes_of(config);
  if (!is_language_model(config.model.kind)) config.model.image = image_of(config, options);
  return config;
}

ModelFigures figures_of_transformer(const Config& config, const memory::TransformerShape& shape) {
  ModelFigures figures{.sixteen_bit_sample_bytes = memory::sixteen_bit_activations(shape)};
  for (const Recompute mode : modes_of(config))
    figures.modes.push_back(
        {mode, memory::transformer_activations(shape, value_bytes_of(config), mode)});
  return figures;
}

memory::TransformerShape transformer_shape(const ModelConfig& model) {
  const std::int64_t class_tokens = model.kind == ModelKind::vit ? 1 : 0;
  return {.layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .tokens = model.context_or_default() + class_tokens,
          .ffn_width = model.ffn_width.value_or(0),
          .post_norm = model.kind == ModelKind::bert};
}

ModelFigures figures_of_llama(const Config& config) {
  const models::LlamaOptions shape = llama_shape(config.model);
  ModelFigures figures{.sixteen_bit_sample_bytes =
                           llama_activations(shape, {.master = 2, .operand = 2}, Recompute::none)};
  for (const Recompute mode : modes_of(config))
    figures.modes.push_back({mode, llama_activations(shape, value_bytes_of(config), mode)});
  return figures;
}

/// A resnet has no closed form of its recomputation here: it saves least for large images.
ModelFigures figures_of_resnet(const Config& config) {
  const std::vector<std::int64_t>& image = config.model.image;
  const models::Stem stem = config.model.stem_or_usual();
  const models::ResNetStages stages = models::resnet_stages(stem, config.model.layers).value();
  const memory::ResNetShape shape{.blocks = stages.blocks,
                                  .convolutions = stages.convolutions,
                                  .is_large = stem == models::Stem::conv7x7,
                                  .width = config.model.width,
                                  .channels = image[0],
                                  .height = image[1],
                                  .width_pixels = image[2]};
  const std::int64_t value_bytes = config.precision.compute == models::Compute::fp64 ? 8 : 4;
  return {.modes = {{Recompute::none, memory::resnet_activations(shape, value_bytes)}}};
}

ModelFigures figures_of(const Config& config) {
  if (config.model.kind == ModelKind::resnet) return figures_of_resnet(config);
  if (config.model.kind == ModelKind::llama) return figures_of_llama(config);
  return figures_of_transformer(config, transformer_shape(config.model));
}

/// The parameter counts and bytes of a model.
struct Parameters {
  std::int64_t all = 0, trained = 0;
  std::int64_t in_large = 0;  ///< trained ones in tensors that memory.offload never keeps in memory
  double frozen_bytes = 0;
};

/// A tensor of so many values is offloaded in each number format: one of a byte has the fewest
/// bytes that are (memory/offload.cpp).
constexpr auto kLargeElements = static_cast<std::int64_t>(memory::kSmallestCachedBytes);

/// A frozen base of adapters is held once, in the precision of products or in blocks; parameters
/// frozen by a pattern are held as if they were trained.
Parameters parameters_of(const models::Model& model, const Config& config) {
  const memory::ValueBytes values = value_bytes_of(config);
  Parameters found;
  for (const NamedParameter& parameter : model.parameters()) {
    const std::int64_t count = kernels::element_count(parameter.tensor);
    found.all += count;
    if (parameter.tensor.requires_grad()) {
      found.trained += count;
      if (count >= kLargeElements) found.in_large += count;
    } else if (static_cast<double>(parameter.tensor.element_size()) == values.master) {
      found.frozen_bytes += memory::frozen_bytes(values) * static_cast<double>(count);
    } else {
      found.frozen_bytes += static_cast<double>(parameter.tensor.nbytes());
    }
  }
  return found;
}

/// The weights that a segment reads; of a model without values there are no copies of them.
std::int64_t weights_of_segment(const models::Segment& segment, bool only_trained) {
  std::int64_t count = 0;
  if (segment.weights)
    for (const at::Tensor& weight : segment.weights())
      if (!only_trained || weight.requires_grad()) count += kernels::element_count(weight);
  return count;
}

RunEstimate::Chain chain_of(models::Model& model, const Config& config) {
  if (config.model.kind == ModelKind::resnet) return {};
  const std::vector<models::Segment> segments = model.segments();
  const memory::TransformerShape shape = transformer_shape(config.model);
  RunEstimate::Chain chain{
      .blocks = config.model.layers,
      .cuts = std::ssize(segments) - 1,
      .cut_bytes = std::llround(static_cast<double>(shape.tokens * shape.width) *
                                value_bytes_of(config).master),
      .first_parameters = weights_of_segment(segments.front(), /*only_trained=*/true)};
  std::int64_t before = 0;
  for (const models::Segment& segment : segments) {
    const std::int64_t own = weights_of_segment(segment, /*only_trained=*/false);
    chain.pair_parameters = std::max(chain.pair_parameters, before + own);
    before = own;
  }
  return chain;
}

memory::Resident held_bytes(const Parameters& parameters, const Config& config) {
  memory::Resident held = memory::state_bytes(parameters.trained, storage_of(config));
  held.parameters += std::llround(parameters.frozen_bytes);
  return held;
}

/// Scales of int8 state are small tensors of their own.
memory::Resident surely_offloaded_bytes(const Parameters& parameters, const Config& config) {
  memory::Storage storage = storage_of(config);
  storage.values.operand = storage.values.master;
  storage.moments = std::floor(storage.moments);
  return memory::state_bytes(parameters.in_large, storage);
}

memory::Resident sixteen_bit_state(const Parameters& parameters) {
  constexpr std::int64_t sixteen_bits = 2;
  memory::Resident held = memory::sixteen_bit_state(parameters.trained);
  held.parameters += sixteen_bits * (parameters.all - parameters.trained);
  return held;
}

/// Of the largest batch, if it changes.
std::int64_t samples_of_batch(const Config& config, std::int64_t sample_tokens) {
  if (config.batch.samples) return batch_range(config).most;
  if (sample_tokens == 0)
    throw usage_error(estimating, "batch.samples, since images have no tokens", "batch.tokens",
                      "for example --batch.samples=256");
  return batch::samples_of_tokens(batch_range(config).most, sample_tokens);
}

/// A key to change, as text and as a function.
struct Change {
  std::string text;
  std::function<void(Config&)> apply;
};

/// Changes to the bytes of a parameter. Some do not help with some configs.
std::vector<Change> changes_of_state() {
  return {
      {"optim.state = \"bf16\"", [](Config& c) { c.optim.state = optim::StatePrecision::bf16; }},
      {"optim.state = \"int8\"", [](Config& c) { c.optim.state = optim::StatePrecision::int8; }},
      {"memory.gradients = \"optimizer\"",
       [](Config& c) { c.memory.gradients = GradientPlace::optimizer; }},
      {"optim.kind = \"adama\"", [](Config& c) { c.optim.kind = OptimizerKind::adama; }},
      {"precision.accumulate = \"bf16-stochastic\"",
       [](Config& c) { c.precision.accumulate = accum::Accumulation::bf16_stochastic; }},
  };
}

/// Whether `changed` keeps the optimizer except for where gradients go: AdamA counts as AdamW, and
/// no other does.
bool keeps_the_optimizer(const Config& config, const Config& changed) {
  return config.optim.kind == changed.optim.kind || config.optim.kind == OptimizerKind::adamw;
}

/// The changed config if the checks accept it, perhaps also without clipping, which is then added
/// to the change's text. None if another key prevents it.
std::optional<Config> changed_config(const Config& config, Change& change) {
  Config changed = config;
  change.apply(changed);
  const auto conflict = optimizer_memory_conflict(changed);
  if (!conflict) return changed;
  if (conflict->key != "optim.clip") return std::nullopt;
  changed.optim.clip = 0;
  change.text += " with optim.clip = 0";
  if (optimizer_memory_conflict(changed)) return std::nullopt;
  return changed;
}

void take_savings(const Config& config, const Parameters& parameters, RunEstimate& estimate) {
  const auto add = [&](const std::string& change, std::int64_t saved) {
    if (saved > 0) estimate.savings.push_back({change, saved});
  };
  for (Change change : changes_of_state()) {
    const std::optional<Config> changed = changed_config(config, change);
    if (!changed || !keeps_the_optimizer(config, *changed)) continue;
    add(change.text, estimate.held.total() - held_bytes(parameters, *changed).total());
  }
  for (const RunEstimate::Mode& mode : estimate.modes)
    add("memory.recompute = \"" + std::string(to_string(mode.recompute)) + '"',
        (estimate.modes.front().sample_bytes - mode.sample_bytes) * estimate.micro_batch);
}

void take_fits(RunEstimate& estimate) {
  for (const memory::Device& device : memory::device_presets())
    for (const RunEstimate::Mode& mode : estimate.modes) {
      const std::int64_t largest = memory::largest_micro_batch(
          device.bytes, estimate.held, mode.sample_bytes, estimate.batch_samples);
      estimate.fits.push_back(
          {.device = device,
           .recompute = mode.recompute,
           .largest_micro_batch = largest,
           .peak_bytes =
               estimate.held.total() + std::max<std::int64_t>(1, largest) * mode.sample_bytes});
    }
}

std::optional<std::int64_t> tokens_of_run(const Config& config, const RunEstimate& estimate) {
  if (config.run.tokens) return config.run.tokens;
  const std::int64_t batch_tokens =
      estimate.batch_samples * std::max<std::int64_t>(1, estimate.sample_tokens);
  if (config.run.steps && !batch_changes(config)) return *config.run.steps * batch_tokens;
  return std::nullopt;
}

void check(const memory::Offer& offer, const char* options) {
  if (offer.price_per_hour > 0 && offer.tokens_per_second > 0) return;
  throw usage_error(estimating, std::string(options) + ", both above 0",
                    "a price of " + std::to_string(offer.price_per_hour) + " and " +
                        std::to_string(offer.tokens_per_second) + " tokens/s",
                    "both options together");
}

void take_costs(const EstimateOptions& options, RunEstimate& estimate) {
  if (options.versus && !options.offer)
    throw usage_error(estimating, "--price and --tokens-per-second", "only what to compare with",
                      "all four options together");
  if (!options.offer) return;
  check(*options.offer, "--price and --tokens-per-second");
  if (options.versus) {
    check(*options.versus, "--versus-price and --versus-tokens-per-second");
    estimate.comparison = memory::compare(*options.offer, *options.versus);
  }
  if (!estimate.total_tokens)
    throw usage_error(estimating, "the run's length as run.steps or run.tokens",
                      "run.epochs, which takes the data, or steps of a batch that changes",
                      "--run.tokens=10000000000");
  const auto tokens = static_cast<double>(*estimate.total_tokens);
  estimate.cost = memory::run_cost(tokens, *options.offer);
  if (options.versus) estimate.versus_cost = memory::run_cost(tokens, *options.versus);
}

}  // namespace

RunEstimate estimate_run(const Config& given, const EstimateOptions& options) {
  if (given.model.kind == ModelKind::torchscript)
    throw usage_error(estimating,
                      "a model whose shape the config states: gpt2, llama, bert, vit or resnet",
                      "torchscript", "accrue plan without --estimate, which measures");
  const Config config = with_shape(with_whole_batch(given, options.ranks), options);
  const ModelFigures figures = figures_of(config);
  const std::unique_ptr<models::Model> model = make_model_shapes(config);
  const Parameters parameters = parameters_of(*model, config);
  RunEstimate estimate;
  estimate.parameters = parameters.all;
  estimate.trained = parameters.trained;
  estimate.sample_tokens =
      is_language_model(config.model.kind) ? config.model.context_or_default() : 0;
  estimate.batch_samples = samples_of_batch(config, estimate.sample_tokens);
  estimate.batch_changes = batch_changes_in_words(config);
  estimate.micro_batch = std::min(config.batch.micro.value_or(1), estimate.batch_samples);
  estimate.micro_reason = config.batch.micro ? "as batch.micro says" : "one sample, the least";
  estimate.micro_batches =
      (estimate.batch_samples + estimate.micro_batch - 1) / estimate.micro_batch;
  const std::int64_t ranks = ranks_that_share(config, options.ranks);
  estimate.effective = divide_batch(
      estimate.batch_samples,
      std::vector<std::int64_t>(static_cast<std::size_t>(ranks), estimate.micro_batch));
  estimate.effective.tokens = estimate.batch_samples * estimate.sample_tokens;
  estimate.sixteen_bit = sixteen_bit_state(parameters);
  estimate.sixteen_bit_sample_bytes = figures.sixteen_bit_sample_bytes;
  estimate.held = held_bytes(parameters, config);
  estimate.surely_offloaded = surely_offloaded_bytes(parameters, config);
  estimate.modes = figures.modes;
  estimate.flops_per_sample = model->flops_per_sample();
  estimate.chain = chain_of(*model, config);
  const std::int64_t sample_bytes = figures.modes.front().sample_bytes;
  estimate.micro_activation_bytes = estimate.micro_batch * sample_bytes;
  estimate.one_pass_bytes = estimate.held.total() + estimate.batch_samples * sample_bytes;
  estimate.total_tokens = tokens_of_run(config, estimate);
  take_savings(config, parameters, estimate);
  take_fits(estimate);
  take_costs(options, estimate);
  return estimate;
}

std::optional<RunEstimate> estimate_if_known(const Config& config, const EstimateOptions& options) {
  try {
    return estimate_run(config, options);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace accrue::train
