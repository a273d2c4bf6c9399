#include "train/workload/workload.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/shard_scope.h"
#include "accrue/models/normalisation.h"
#include "accrue/optim/torch_optimizer.h"
#include "accrue/train/custom.h"
#include "batch/variable_windows.h"
#include "core/words.h"
#include "data/text/sources/column_source.h"
#include "train/config/accumulation_order.h"
#include "train/config/gradient_folding.h"
#include "train/workload/batch_changes.h"
#include "train/workload/layered_model.h"
#include "train/workload/model_factory.h"
#include "train/workload/offload_folder.h"
#include "train/workload/pair_reference.h"
#include "train/workload/peak_rate.h"
#include "train/workload/placement.h"
#include "train/workload/standard_input.h"
#include "train/workload/text_tokenizer.h"
#include "train/workload/token_masking.h"

namespace accrue::train {
namespace {

constexpr const char* kReadingData = "reading the data";

/// How text becomes tokens, and to whom that is shown.
struct TextReading {
  OpenTokenizer tokenizer;
  ShowProgress show;
};

/// The stated part of the shape to which images are resized.
data::ImageShape stated_shape(const Config& config) {
  const std::vector<std::int64_t>& size = config.data.image;
  const std::vector<std::int64_t>& of_model = config.model.image;
  if (size.empty() && !of_model.empty())  // of the run it starts from
    return {.channels = of_model.at(0), .height = of_model.at(1), .width = of_model.at(2)};
  if (size.empty()) return {};
  return {.channels = 0, .height = size.at(0), .width = size.at(1)};
}

/// Throws if the budget has no room for the file and the pixels of the largest image. Images are
/// decoded in host memory.
void check_decoding(const data::Source& source, const std::string& key) {
  const data::Decoding decoding = source.decoding();
  const std::optional<std::int64_t> room = memory::tensor_budget();
  if (!room || memory::device_room() || decoding.bytes <= *room) return;
  throw Error(Error::Kind::refused, key,
              "images that are decoded within the " + format_bytes(*room) +
                  " that memory.budget leaves to tensors",
              decoding.name + ", which takes " + format_bytes(decoding.bytes),
              "a larger budget, smaller images, or data.exclude for this one");
}

/// Opens training data, or held-out ones, which have to fit those `of_training`.
std::shared_ptr<const data::Source> open_files(const Config& config, const TextReading& text,
                                               const std::vector<std::string>& globs,
                                               const std::string& key,
                                               const data::Source* of_training = nullptr) {
  data::SourceOptions options;
  options.globs = globs;
  options.exclude = config.data.exclude;
  options.format = config.data.format;
  options.tokenizer = text.tokenizer;
  options.cache = text_cache_of(config);
  options.tell_progress = counted_operation(
      text.show,
      {.name = config.data.columns.empty() ? kTokenizing : "indexing", .in_words = format_bytes});
  options.context = config.model.context_or_default();
  options.vocab = config.model.vocab.value_or(0);
  options.packing = config.data.packing;
  options.pairs = models::is_of_pairs(config.loss.kind);
  options.columns = config.data.columns;
  options.whole = config.loss.kind == models::LossKind::mlm;
  options.masks = config.data.masks;
  options.seed = config.run.seed;
  if (of_training == nullptr) {
    options.image = stated_shape(config);
    options.augment = config.data.augment;
    std::shared_ptr<const data::Source> source = data::open_source(options, key);
    check_decoding(*source, key);
    return source;
  }
  options.classes = of_training->classes();
  options.image = of_training->image_shape().value_or(data::ImageShape{});
  options.other_images = config.data.train;
  std::unique_ptr<data::Source> source = data::open_source(options, key);
  data::take_column_types(*of_training, *source, key);
  check_decoding(*source, key);
  return source;
}

std::shared_ptr<const data::Source> mix(std::vector<data::MixturePart> parts,
                                        const Config& config) {
  return data::mix(std::move(parts),
                   {.context = config.model.context_or_default(), .packing = config.data.packing},
                   "data.train");
}

/// If sources have weights each is opened by itself.
std::shared_ptr<const data::Source> open_training_files(const Config& config,
                                                        const TextReading& text) {
  const DataConfig& data = config.data;
  if (config.custom && config.custom->train) return config.custom->train;
  if (data.train.empty())
    throw usage_error("data.train", "file patterns, or data that the program brings",
                      "none of both",
                      "train = [\"texts/*.txt\"] in [data], or accrue::train::Custom::train");
  if (data.weights.empty()) return open_files(config, text, data.train, "data.train");
  Config alone = config;
  // Samples of all sources share rows; for pairs packing marks where their sequences end.
  alone.data.packing = models::is_of_pairs(config.loss.kind);
  std::vector<data::MixturePart> parts;
  for (std::size_t i = 0; i < data.train.size(); ++i)
    parts.push_back({.name = data.train[i],
                     .source = open_files(alone, text, {data.train[i]}, "data.train"),
                     .weight = data.weights.at(i)});
  return mix(std::move(parts), config);
}

/// Training and held-out part of one stream: `val_fraction` takes the last samples.
Datasets split_stream(const std::shared_ptr<const data::Source>& all, double fraction) {
  const std::int64_t size = all->size();
  const auto held_out = std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(size))));
  if (held_out >= size) {
    throw usage_error("data.val_fraction", "a part that leaves samples to train on",
                      std::to_string(held_out) + " of " + std::to_string(size) + " samples",
                      "a smaller fraction or more data");
  }
  return {data::slice(all, 0, size - held_out), data::slice(all, size - held_out, size)};
}

/// Each source of a mixture is split, so that all are held out in the same proportion.
Datasets split_off_validation(const std::shared_ptr<const data::Source>& all,
                              const Config& config) {
  const double fraction = config.data.val_fraction;
  if (all->parts().empty()) return split_stream(all, fraction);
  std::vector<data::MixturePart> train, val;
  for (const data::MixturePart& part : all->parts()) {
    const Datasets split = split_stream(part.source, fraction);
    train.push_back({part.name, split.train, part.weight});
    val.push_back({part.name, split.val, part.weight});
  }
  return {mix(std::move(train), config), mix(std::move(val), config)};
}

/// Throws if no label counts; in most data the first sample is enough.
void expect_labels(const data::Source& source, const std::string& key) {
  for (std::int64_t i = 0; i < source.size(); ++i) {
    const batch::MicroBatch sample = source.fetch(std::span(&i, 1));
    if (!sample.targets.defined()) return;  // the loss decides what counts
    if (kernels::label_weight(sample.targets, sample.weights) > 0) return;
  }
  throw usage_error(key, "samples with labels that count",
                    "none in " + std::to_string(source.size()) + " samples", "other data");
}

/// Throws if samples that can only be read in order are to be drawn in another one.
void check_order(const Config& config, const data::Source& train) {
  if (!train.reads_in_order()) return;
  if (config.data.order != batch::Order::sequential)
    throw usage_error("data.order of a stream", "\"sequential\"",
                      in_quotes(batch::order_words.of(config.data.order)),
                      "order = \"sequential\", or a source with random access");
  if (config.data.val_fraction > 0)
    throw usage_error("data.val_fraction of a stream", "0",
                      std::to_string(config.data.val_fraction),
                      "validation data of its own, as reading the stream's end would restart it "
                      "after each evaluation");
}

/// `config` has the model's vocabulary, which also has to contain the held-out ids.
Datasets open_datasets(const Config& config, const TextReading& text,
                       std::shared_ptr<const data::Source> train) {
  check_order(config, *train);
  if (config.data.val_fraction > 0) {
    Datasets sets = split_off_validation(train, config);
    expect_labels(*sets.train, "data.val_fraction (what it leaves to train on)");
    expect_labels(*sets.val, "data.val_fraction (what it holds out)");
    return sets;
  }
  Datasets sets{std::move(train), nullptr};
  if (config.custom && config.custom->val) sets.val = config.custom->val;
  if (sets.val || config.data.val.empty()) return sets;
  const bool images = sets.train->image_shape().has_value();
  sets.val = open_files(config, text, config.data.val, "data.val", sets.train.get());
  check_text_is_of_model(config, *sets.val, "data.val");
  if (sets.val->image_shape().has_value() == images) return sets;
  throw usage_error("data.val",
                    std::string(images ? "images" : "text or tokens") + ", as in data.train",
                    images ? "text or tokens" : "images", "validation data like the training data");
}

std::int64_t samples_per_window(const Config& config, const data::Source& train,
                                std::int64_t tokens_per_sample) {
  if (config.batch.samples) return *config.batch.samples;
  if (train.image_shape()) {
    throw usage_error("batch.tokens", "batch.samples, since images have no tokens", "batch.tokens",
                      "for example batch.samples = 256");
  }
  return batch::samples_of_tokens(config.batch.tokens.value_or(0), tokens_per_sample);
}

void require_windows(const batch::WindowSchedule& schedule) {
  if (schedule.windows_per_epoch() > 0) return;
  throw usage_error(
      "batch.last",
      "at least one whole batch in an epoch of " + std::to_string(schedule.samples_per_epoch) +
          " samples",
      std::to_string(schedule.samples_per_window) + " samples a batch and last = \"drop\"",
      "last = \"weighted\", a smaller batch or more data");
}

/// Packed weights gain 3 to 10% of speed (docs/notes/gemm.md): if memory is short it is worth more
/// for a larger micro-batch or for activations that need not be recomputed.
bool affords_packing(const models::Model& model) {
  constexpr std::int64_t share = 24;
  if (memory::is_offloading() || memory::has_shard_scope()) return false;
  const std::int64_t bytes = memory::budget().value_or(memory::available_bytes());
  return model.packed_weight_bytes() <= bytes / share;
}

std::unique_ptr<optim::Optimizer> own_optimizer(const Config& config,
                                                const NamedParameters& parameters,
                                                const RankSlice& slice) {
  if (slice != RankSlice{} || folds_gradients(config))
    throw usage_error("train with an optimizer of the program's own",
                      "gradients in a buffer, whole on each rank",
                      slice != RankSlice{} ? "dist.shard" : "gradients in the optimizer's state",
                      "dist.shard = \"none\" and memory.gradients = \"buffer\"");
  std::vector<at::Tensor> trained;
  for (const NamedParameter& parameter : parameters)
    if (parameter.tensor.requires_grad()) trained.push_back(parameter.tensor);
  return optim::from_torch(config.custom->optimizer(std::move(trained)), parameters,
                           config.optim.lr);
}

}  // namespace

Datasets open_data(Config& config, const ShowProgress& show) {
  config = with_standard_input(std::move(config));
  take_shape_of_origin(config);
  config.model.context = config.model.context_or_default();
  const LongOperation reading(show, kReadingData);
  const TextReading text{.tokenizer = tokenizer_of(config), .show = show};
  std::shared_ptr<const data::Source> train = open_training_files(config, text);
  check_text_is_of_model(config, *train, "data.train");
  return open_datasets(config, text, std::move(train));
}

Workload open_workload(Config config, const ShowProgress& show,
                       std::shared_ptr<const data::Source> train) {
  config = with_standard_input(with_whole_batch(std::move(config), 1));
  check_rates(config);
  Workload work;
  if (const std::filesystem::path folder = offload_folder(config); !folder.empty())
    work.offload = std::make_unique<memory::OffloadScope>(folder, offload_budget(config));
  std::unique_ptr<models::Model> loaded = during(show, "loading " + config.model.from, [&] {
    return load_shaping_model(config, work.remarks);
  });
  config.model.context = config.model.context_or_default();
  const TextReading text{.tokenizer = tokenizer_of(config), .show = show};
  if (train == nullptr)
    train = during(show, kReadingData, [&] { return open_training_files(config, text); });
  check_text_is_of_model(config, *train, "data.train");
  fit_model_to_data(config, *train);
  during(show, "preparing the model", [&] {
    work.model = loaded ? std::move(loaded) : make_initial_model(config);
    apply_adapters_and_freeze(config, *work.model, work.remarks);
    check_loaded_model(config, *work.model, *train);
    check_layered_model(config, *work.model);
    work.model->pack_weights(affords_packing(*work.model));
  });
  work.data = during(show, kReadingData, [&] {
    return hide_tokens(config, open_datasets(config, text, std::move(train)));
  });
  work.schedule = make_window_schedule(config, work.data.train);
  work.config = std::move(config);
  stand_in_for_reference(work);
  place(*work.model, device_of(work.config));
  memory::measure_outside();
  return work;
}

bool takes_window_statistics(const Config& config, models::Trainable& model) {
  return config.model.batchnorm == models::BatchNormPolicy::exact &&
         !models::find_batch_norms(model).none();
}

bool is_layered(const Config& config, models::Trainable& model) {
  return asks_for_layered(config) || takes_window_statistics(config, model);
}

DataIdentity data_identity(const Workload& work) {
  const Datasets& data = work.data;
  return {.fingerprint = data.val ? data.train->fingerprint() + " " + data.val->fingerprint()
                                  : data.train->fingerprint(),
          .samples = data.train->size(),
          .held_out = data.val ? data.val->size() : 0,
          .image = work.config.model.image};
}

batch::WindowSchedule make_window_schedule(const Config& config,
                                           const std::shared_ptr<const data::Source>& train) {
  const batch::LastWindow last = config.batch.last;
  if (batch_changes(config)) {
    samples_per_window(config, *train, train->uniform_tokens().value_or(1));
    return changing_schedule(config, make_sampler(config, *train), train);
  }
  batch::WindowSchedule schedule;
  if (const std::optional<std::int64_t> tokens = train->uniform_tokens()) {
    schedule = {.samples_per_epoch = train->size(),
                .samples_per_window = samples_per_window(config, *train, *tokens),
                .last = last,
                .tokens_per_sample = *tokens};
  } else {
    batch::WindowBudget budget;
    if (config.batch.tokens) budget.tokens = *config.batch.tokens;
    if (config.batch.samples) budget.samples = *config.batch.samples;
    schedule = batch::variable_window_schedule(
        make_sampler(config, *train), [train](std::int64_t i) { return train->tokens(i); }, budget,
        last);
  }
  require_windows(schedule);
  // A window ends when its epoch does: if a batch is larger than the data, a step has all data.
  schedule.samples_per_window = std::min(schedule.samples_per_window, schedule.samples_per_epoch);
  return schedule;
}

batch::Sampler make_sampler(const Config& config, const data::Source& train) {
  const std::vector<data::MixturePart> parts = train.parts();
  if (parts.empty()) return {train.size(), config.data.order, config.run.seed};
  std::vector<batch::WeightedPart> weighted;
  for (const data::MixturePart& part : parts)
    weighted.push_back({.size = part.source->size(), .weight = part.weight});
  return {weighted, config.data.order, config.run.seed};
}

std::int64_t total_windows(const Config& config, const batch::WindowSchedule& schedule) {
  if (config.run.steps) return *config.run.steps;
  if (config.run.tokens) return schedule.windows_of_tokens(*config.run.tokens);
  return schedule.windows_of_epochs(config.run.epochs.value_or(0));
}

std::shared_ptr<accum::GradientBuffer> make_gradient_buffer(const Config& config,
                                                            const models::Trainable& model,
                                                            optim::Optimizer* optimizer) {
  const NamedParameters parameters = model.parameters();
  if (folds_gradients(config)) {
    const bool takes_parts = config.optim.kind == OptimizerKind::sgd;
    accum::FoldInto into{.shared =
                             takes_parts ? std::vector<std::string>{} : model.shared_parameters()};
    if (optimizer != nullptr) into.target = optimizer->fold_target();
    return std::make_shared<accum::GradientBuffer>(parameters, std::move(into));
  }
  return std::make_shared<accum::GradientBuffer>(parameters, config.precision.accumulate,
                                                 config.run.seed);
}

std::vector<optim::ParameterGroup> parameter_groups(const Config& config,
                                                    const NamedParameters& parameters) {
  const OptimConfig& o = config.optim;
  std::vector<optim::PatternRate> rates;
  for (const RateOfPattern& rate : o.rates) rates.push_back({rate.match, rate.lr / o.lr});
  return optim::split_by_rates(
      optim::default_groups(parameters, o.weight_decay, o.decay == Decay::all), rates);
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config,
                                                 const NamedParameters& parameters,
                                                 const RankSlice& slice) {
  const OptimConfig& o = config.optim;
  if (config.custom && config.custom->optimizer) return own_optimizer(config, parameters, slice);
  std::vector<optim::ParameterGroup> groups = parameter_groups(config, parameters);
  const optim::StateOptions state{.precision = o.state, .seed = config.run.seed, .slice = slice};
  if (o.kind == OptimizerKind::adama)
    return optim::make_adama(parameters, std::move(groups),
                             {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps}, state);
  if (o.kind == OptimizerKind::sgd) {
    const auto make = folds_gradients(config) ? optim::make_folded_sgd : optim::make_sgd;
    return make(parameters, std::move(groups), {.momentum = o.momentum}, state);
  }
  if (o.kind == OptimizerKind::rmsprop)
    return optim::make_rmsprop(parameters, std::move(groups),
                               {.eps = o.eps, .momentum = o.momentum}, state);
  return optim::make_adam(parameters, std::move(groups),
                          {.beta1 = o.beta1,
                           .beta2 = o.beta2,
                           .eps = o.eps,
                           .decoupled_decay = o.kind == OptimizerKind::adamw},
                          state);
}

double peak_rate(const Config& config) {
  const OptimConfig& o = config.optim;
  if (o.scale_lr == optim::ScaleRule::none) return o.lr;
  const std::int64_t batch = config.batch.tokens ? *config.batch.tokens : *config.batch.samples;
  return optim::scale_learning_rate(o.lr, o.scale_lr, batch, o.base_batch.value_or(batch));
}

optim::LearningRate make_learning_rate(const Config& config, const Horizon& horizon) {
  const OptimConfig& o = config.optim;
  return {.kind = o.schedule.kind,
          .peak = peak_rate(config),
          .min_lr = o.schedule.min_lr,
          .warmup = to_steps(o.schedule.warmup, horizon, "optim.schedule.warmup"),
          .total_steps = horizon.total_steps,
          .version = o.schedule.version};
}

namespace {

/// Parameters are fp32 unless products are fp64: a rate beyond fp32's range is an infinity to them.
void expect_rates_in_range(const Config& config) {
  const OptimConfig& o = config.optim;
  const bool is_double = config.precision.compute == models::Compute::fp64;
  const double most = is_double ? std::numeric_limits<double>::max()
                                : static_cast<double>(std::numeric_limits<float>::max());
  const auto expect = [&](const std::string& key, double rate) {
    if (rate <= most) return;
    std::ostringstream expected, received;
    expected << "a rate that parameters in " << (is_double ? "fp64" : "fp32") << " hold: at most "
             << most;
    received << rate;
    throw usage_error(key, expected.str(), received.str(), "a lower one, such as 3e-4");
  };
  expect("optim.lr", o.lr);
  const double peak = peak_rate(config);
  expect("optim.scale_lr with this batch", peak);
  for (const RateOfPattern& rate : o.rates)
    expect("optim.rates, \"" + rate.match + "\"", std::max(rate.lr, rate.lr / o.lr * peak));
}

}  // namespace

void check_rates(const Config& config) {
  expect_rates_in_range(config);
  const OptimConfig& o = config.optim;
  const double floor = o.schedule.min_lr;
  if (o.schedule.kind == optim::ScheduleKind::constant || floor == 0) return;
  const double peak = peak_rate(config);
  const auto refuse = [&](const std::string& key, double rate, const std::string& suggestion) {
    std::ostringstream expected, received;
    expected << "a rate of at least optim.schedule.min_lr (" << floor
             << "), which is absolute and no rate falls below";
    received << rate;
    throw usage_error(key, expected.str(), received.str(), suggestion);
  };
  if (peak < floor)
    refuse("optim.scale_lr with this batch", peak,
           "a smaller optim.schedule.min_lr, or scale_lr = \"none\"");
  if (o.schedule.version == optim::ScheduleVersion::min_in_last_step) return;
  for (const RateOfPattern& rate : o.rates)
    if (const double own = rate.lr / o.lr * peak; own < floor)
      refuse("optim.rates, \"" + rate.match + "\"", own,
             "a smaller optim.schedule.min_lr, or a larger rate");
}

}  // namespace accrue::train
