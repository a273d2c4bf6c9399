#include "workload.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "accrue/models/gpt2_io.h"

namespace accrue::train {
namespace {

constexpr std::int64_t byte_vocabulary = 256;

models::Compute compute_of(const std::string& name) {
  if (name == "bf16") return models::Compute::bf16;
  if (name == "fp64") return models::Compute::fp64;
  return models::Compute::fp32;
}

models::Gpt2Options model_options(const Config& config) {
  return {.layers = config.model.layers,
          .heads = config.model.heads,
          .width = config.model.width,
          .context = config.model.context,
          .vocab = config.model.vocab.value_or(byte_vocabulary),
          .dropout = config.model.dropout,
          .compute = compute_of(config.precision.compute),
          .seed = config.run.seed};
}

std::shared_ptr<const data::Source> open_split(const Config& config,
                                               const std::vector<std::string>& globs,
                                               const std::string& key) {
  data::SourceOptions options;
  options.globs = globs;
  options.format = config.data.format;
  options.tokenizer = config.data.tokenizer;
  options.context = config.model.context;
  options.vocab = config.model.vocab.value_or(0);
  return data::open_source(options, key);
}

/// Training and held-out part of one stream: `val_fraction` takes the last samples.
Datasets split_off_validation(const std::shared_ptr<const data::Source>& all, double fraction) {
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

}  // namespace

Config resolve(Config config) {
  if (config.run.out.empty()) {
    throw usage_error("run.out", "a folder for the run", "nothing",
                      "out = \"runs/first\" in [run]");
  }
  if (!config.model.from.empty()) {
    const models::Gpt2Options shape =
        models::load_gpt2_folder(config.model.from, model_options(config))->options();
    config.model.layers = shape.layers;
    config.model.heads = shape.heads;
    config.model.width = shape.width;
    config.model.context = shape.context;
    config.model.vocab = shape.vocab;
  }
  return config;
}

std::unique_ptr<models::Gpt2> make_model(const Config& config) {
  return std::make_unique<models::Gpt2>(model_options(config));
}

std::unique_ptr<models::Gpt2> make_initial_model(const Config& config) {
  if (config.model.from.empty()) return make_model(config);
  return models::load_gpt2_folder(config.model.from, model_options(config));
}

Datasets open_datasets(const Config& config) {
  Datasets sets{open_split(config, config.data.train, "data.train"), nullptr};
  if (config.data.val_fraction > 0) {
    sets = split_off_validation(sets.train, config.data.val_fraction);
  } else if (!config.data.val.empty()) {
    sets.val = open_split(config, config.data.val, "data.val");
  }
  const std::int64_t vocab = config.model.vocab.value_or(byte_vocabulary);
  if (sets.train->vocab() == 0 && !config.model.vocab) {
    throw usage_error("model.vocab", "the vocabulary's size, since token files do not tell it",
                      "nothing", "vocab = 50304 in [model], or what the tokenizer has");
  }
  if (sets.train->vocab() > vocab) {
    throw usage_error(
        "model.vocab",
        "at least the tokenizer's vocabulary of " + std::to_string(sets.train->vocab()),
        std::to_string(vocab), "leaving model.vocab out");
  }
  return sets;
}

std::int64_t samples_per_window(const Config& config) {
  if (config.batch.samples) return *config.batch.samples;
  return batch::samples_of_tokens(config.batch.tokens.value_or(0), config.model.context);
}

batch::WindowSchedule make_window_schedule(const Config& config, std::int64_t train_samples) {
  return {
      .samples_per_epoch = train_samples,
      .samples_per_window = samples_per_window(config),
      .last = config.batch.last == "drop" ? batch::LastWindow::drop : batch::LastWindow::weighted};
}

batch::Sampler make_sampler(const Config& config, std::int64_t train_samples) {
  return {train_samples,
          config.data.order == "sequential" ? batch::Order::sequential : batch::Order::shuffle,
          config.run.seed};
}

std::int64_t total_windows(const Config& config, const batch::WindowSchedule& schedule) {
  const std::int64_t per_epoch = schedule.windows_per_epoch();
  if (per_epoch == 0) {
    throw usage_error(
        "batch.last",
        "at least one whole batch in an epoch of " + std::to_string(schedule.samples_per_epoch) +
            " samples",
        std::to_string(schedule.samples_per_window) + " samples a batch and last = \"drop\"",
        "last = \"weighted\", a smaller batch or more data");
  }
  if (config.run.steps) return *config.run.steps;
  if (config.run.tokens) {
    const std::int64_t epoch_tokens =
        config.model.context * (schedule.last == batch::LastWindow::drop
                                    ? per_epoch * schedule.samples_per_window
                                    : schedule.samples_per_epoch);
    const std::int64_t window_tokens = config.model.context * schedule.samples_per_window;
    const std::int64_t whole = *config.run.tokens / epoch_tokens;
    const std::int64_t rest = *config.run.tokens % epoch_tokens;
    return whole * per_epoch + std::min(per_epoch, (rest + window_tokens - 1) / window_tokens);
  }
  const double windows = config.run.epochs.value_or(0) * static_cast<double>(per_epoch);
  return std::max<std::int64_t>(1, std::llround(windows));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const Config& config,
                                                 const NamedParameters& parameters) {
  const OptimConfig& o = config.optim;
  std::vector<optim::ParameterGroup> groups =
      optim::default_groups(parameters, o.weight_decay, o.decay == "all");
  if (o.kind == "sgd")
    return optim::make_sgd(parameters, std::move(groups), {.momentum = o.momentum});
  if (o.kind == "rmsprop")
    return optim::make_rmsprop(parameters, std::move(groups),
                               {.eps = o.eps, .momentum = o.momentum});
  return optim::make_adam(
      parameters, std::move(groups),
      {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .decoupled_decay = o.kind == "adamw"});
}

optim::LearningRate make_learning_rate(const Config& config, const Horizon& horizon) {
  const OptimConfig& o = config.optim;
  using Kind = optim::ScheduleKind;
  using Rule = optim::ScaleRule;
  const Rule rule = o.scale_lr == "linear" ? Rule::linear
                    : o.scale_lr == "sqrt" ? Rule::sqrt
                                           : Rule::none;
  const std::int64_t batch = config.batch.tokens ? *config.batch.tokens : *config.batch.samples;
  return {.kind = o.schedule.kind == "constant" ? Kind::constant
                  : o.schedule.kind == "linear" ? Kind::linear
                                                : Kind::cosine,
          .peak = rule == Rule::none
                      ? o.lr
                      : optim::scale_learning_rate(o.lr, rule, batch, o.base_batch.value_or(batch)),
          .min_lr = o.schedule.min_lr,
          .warmup = to_steps(o.schedule.warmup, horizon, "optim.schedule.warmup"),
          .total_steps = horizon.total_steps};
}

}  // namespace accrue::train
