#include "train/run/sum_stepper.h"

#include <optional>
#include <string>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "core/words.h"
#include "train/plan/setup.h"

namespace accrue::train {
namespace {

/// The description of data that are somewhere else.
class DataElsewhere final : public data::Source {
 public:
  DataElsewhere(DataShape shape, std::int64_t tokens) : shape_(std::move(shape)), tokens_(tokens) {}

  /// More than any batch: an epoch is never short.
  std::int64_t size() const override { return std::int64_t{1} << 40; }
  std::int64_t vocab() const override { return shape_.vocab; }
  std::int64_t tokens(std::int64_t) const override { return tokens_; }
  std::optional<std::int64_t> uniform_tokens() const override { return tokens_; }
  std::optional<data::ImageShape> image_shape() const override {
    if (shape_.image.empty()) return std::nullopt;
    return data::ImageShape{
        .channels = shape_.image[0], .height = shape_.image[1], .width = shape_.image[2]};
  }
  std::vector<std::string> classes() const override { return shape_.classes; }
  batch::MicroBatch fetch(std::span<const std::int64_t>) const override {
    throw usage_error("read a sample", "a process that has data", "one that takes others' sums",
                      "WindowWorker for the samples");
  }
  std::string fingerprint() const override { return "elsewhere"; }

 private:
  DataShape shape_;
  std::int64_t tokens_;
};

void expect_shape(const DataShape& shape) {
  const bool is_whole = shape.vocab > 0 && (shape.image.empty() || shape.image.size() == 3);
  if (!is_whole)
    throw usage_error("shape of data", "a vocabulary, and for images channels, height and width",
                      "vocab " + std::to_string(shape.vocab) + " and " +
                          std::to_string(shape.image.size()) + " numbers of an image",
                      "the value of WindowWorker::shape() in a process that has the data");
}

void expect_length_in_steps(const Config& config) {
  if (!config.run.steps)
    throw usage_error("run.steps of a process without data", "the number of steps",
                      config.run.epochs ? "run.epochs" : "run.tokens", "steps = 1000 in [run]");
  const Duration::Unit unit = config.optim.schedule.warmup.unit;
  if (unit != Duration::Unit::steps && unit != Duration::Unit::percent)
    throw usage_error("optim.schedule.warmup of a process without data", "steps or percent",
                      "a length of data", "warmup = \"1%\" in [optim.schedule]");
}

/// The files of the config are those of the processes that have data.
Workload open_without_data(Config config, const DataShape& shape) {
  expect_shape(shape);
  expect_length_in_steps(config);
  use_resources(config);
  const batch::Order order = config.data.order;
  config.data = {};
  config.data.order = order;
  const std::int64_t tokens = shape.image.empty() ? config.model.context_or_default() : 1;
  Workload work =
      open_workload(std::move(config), {}, std::make_shared<const DataElsewhere>(shape, tokens));
  expect_exchangeable_sums(work);
  return work;
}

RunRates rates_of(const Workload& work) {
  return {work.config,   Horizon{.total_steps = *work.config.run.steps},
          work.schedule, work.schedule,
          SampleFacts{}, *work.config.run.steps};
}

}  // namespace

SumStepper::SumStepper(const Config& config, const DataShape& shape)
    : work_(open_without_data(config, shape)),
      optimizer_(make_optimizer(work_.config, work_.model->parameters())),
      buffer_(make_gradient_buffer(work_.config, *work_.model)),
      window_(buffer_),
      rates_(rates_of(work_)) {}

std::int64_t SumStepper::batch_samples() const {
  if (work_.config.batch.samples) return *work_.config.batch.samples;
  throw usage_error("batch of a process without data", "a batch in samples", "batch.tokens",
                    "samples = 256 in [batch]");
}

StepReport SumStepper::step(const WindowSums& sums) {
  const Stopwatch watch;
  StepReport report;
  report.step = steps_;
  report.weight = sums.weight;
  report.micro_batches = sums.micro_batches;
  report.quarantined = sums.quarantined;
  report.stepped = false;
  const std::vector<int> units = buffer_->units();
  window_.load({.index = windows_,
                .open = true,
                .entries = {{.micro = {.sample_ids = {}, .weight = sums.weight},
                             .status = MicroStatus::committed,
                             .loss_sum = sums.loss_sum,
                             .reason = {}}},
                .sums = sums.gradients,
                .contributions = sums.contributions,
                .units = sums.units.empty() ? units : sums.units});
  std::optional<accum::MeanGradient> gradient = window_.close();
  if (window_.is_lost()) {
    buffer_->set_units(units);
    throw runtime_error("step " + std::to_string(steps_ + 1), "finite sums", window_.lost_reason(),
                        "the sums without those of the process that sent them");
  }
  if (gradient) {
    const double clip = work_.config.optim.clip;
    report.grad_norm = clip > 0 ? gradient->clip(clip) : gradient->norm();
    report.lr = rates_.at(windows_, steps_);
    optimizer_->set_fall(rates_.fall_at(windows_, steps_, 1));
    optimizer_->step(std::move(*gradient), *report.lr);
    report.loss = sums.loss_sum / sums.weight;
    report.stepped = true;
    report.step = ++steps_;
  }
  ++windows_;
  report.seconds = watch.seconds();
  return report;
}

SumStepper::State SumStepper::state() const {
  State state{.optimizer = optimizer_->state(),
              .steps = steps_,
              .windows = windows_,
              .units = buffer_->units()};
  for (NamedParameter& kept : state.optimizer) kept.tensor = kept.tensor.detach().clone();
  return state;
}

void SumStepper::load_state(const State& state) {
  if (state.steps < 0 || state.windows < state.steps)
    throw usage_error(
        "load the state of a stepper", "as many windows as steps, or more",
        std::to_string(state.windows) + " windows and " + std::to_string(state.steps) + " steps",
        "the state as it was saved");
  if (state.units.size() != buffer_->units().size())
    throw usage_error(
        "load the state of a stepper", std::to_string(buffer_->units().size()) + " units",
        std::to_string(state.units.size()), "the state of a stepper with this config");
  optimizer_->load_state(state.optimizer);
  buffer_->set_units(state.units);
  steps_ = state.steps;
  windows_ = state.windows;
}

}  // namespace accrue::train
