#include "verify/config/config_subject.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"
#include "accrue/kernels/cross_entropy.h"
#include "accrue/models/normalisation.h"
#include "accrue/train/custom.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/plain/plain_operations.h"
#include "models/layers/compute_dtypes.h"
#include "train/config/gradient_folding.h"
#include "train/pass/forward_backward.h"
#include "train/pass/run_micro_batch.h"
#include "verify/comparison.h"
#include "verify/config/check_plan_input.h"
#include "verify/config/host_tensors.h"
#include "verify/config/loading_check.h"
#include "verify/config/ranked_window.h"
#include "verify/config/reference_optimizer.h"
#include "verify/config/several_losses.h"
#include "verify/config/trained_window.h"
#include "verify/module_subject.h"
#include "verify/running_errors.h"

namespace accrue::proof {
namespace {

using Entry = accum::GradientBuffer::Entry;

/// The twin's sums must not lose more than its gradients do.
train::Config config_of(const train::Config& given, bool is_twin) {
  train::Config config = given;
  if (!is_twin) return config;
  config.precision.compute = models::Compute::fp64;
  config.precision.accumulate = accum::Accumulation::fp64;
  return config;
}

/// Config of the optimizer's steps with moments and sums that rounding cannot make jump.
train::Config with_exact_moments(train::Config config, StepsBy by) {
  if (by == StepsBy::buffer) config.memory.gradients = train::GradientPlace::buffer;
  config.optim.state = optim::StatePrecision::fp32;
  if (sums_are_coarse(config)) config.precision.accumulate = accum::Accumulation::fp32;
  return config;
}

Error no_weight() {
  return usage_error("verify", "a batch with labels that count", "a total weight of 0",
                     "another data.order, run.seed or batch");
}

std::string text_of(batch::Range samples) {
  return "of samples " + std::to_string(samples.begin) + " to " + std::to_string(samples.end - 1);
}

/// Labels, whether they count or not.
double terms_of(const batch::MicroBatch& micro) {
  return micro.targets.defined() ? static_cast<double>(micro.targets.numel()) : 1;
}

Gradients totals_of(const train::WindowRun& run) {
  if (run.weight > 0) return {.weight = run.weight, .loss_sum = run.loss_sum};
  throw no_weight();
}

}  // namespace

std::unique_ptr<models::Model> copy_of(const models::Model& from, const train::Config& config,
                                       const TrainingParts& parts) {
  std::unique_ptr<models::Model> made = parts.model(config);
  const at::NoGradGuard no_grad;
  const auto copy = [](const NamedParameters& source, const NamedParameters& target) {
    for (std::size_t i = 0; i < source.size(); ++i) {
      const at::Tensor &to = target[i].tensor, &values = source[i].tensor;
      if (!to.defined()) continue;
      // Blocks from a file are plain values in a model that is made without the file.
      to.copy_(to.sizes() == values.sizes() ? values : kernels::unpacked(values, at::kFloat));
    }
  };
  copy(from.parameters(), made->parameters());
  copy(from.buffers(), made->buffers());
  return made;
}

ConfigSubject::ConfigSubject(const train::Workload& work, const TrainingParts& parts,
                             std::unique_ptr<models::Model> twin)
    : work_(work),
      parts_(parts),
      config_(config_of(work.config, twin != nullptr)),
      twin_(std::move(twin)),
      model_(twin_ ? *twin_ : *work.model),
      loader_(std::make_unique<data::Loader>(work.data.train,
                                             train::make_sampler(work.config, *work.data.train))),
      window_(work.schedule.window(0)),
      exact_(train::takes_window_statistics(config_, model_)) {
  for (const NamedParameter& parameter : model_.parameters())
    (parameter.tensor.requires_grad() ? trained_ : frozen_).push_back(parameter);
  for (const NamedParameter& parameter : frozen_)
    frozen_before_.emplace_back(NamedParameters{parameter});
}

void ConfigSubject::fill(accum::Window& window, const Parts& parts, const Conditions& conditions,
                         Gradients& result) {
  const auto context_of = [&](const batch::MicroBatch& micro) {
    ForwardContext context =
        batch::training_context(micro, config_.run.seed + conditions.seed - 1, 0);
    context.training = conditions.mode == Mode::training;
    return context;
  };
  const train::PassOptions options =
      pass_options(loss_totals(model_, *loader_, parts), conditions.weighting);
  window.set_replay([&](const MicroRef& ref) {
    const batch::MicroBatch micro = loader_->fetch_draws(ref.sample_ids);
    const train::PassResult pass =
        train::forward_backward(model_, micro, context_of(micro), options);
    return Loss{at::scalar_tensor(pass.loss_sum, at::kDouble), pass.weight};
  });
  RunningErrors errors(*window.buffer());
  std::int64_t done = 0;
  for (const batch::Range part : parts) {
    const batch::MicroBatch micro = loader_->fetch(part);
    const train::MicroBatchRun run =
        train::run_micro_batch(window, model_, {.index = done++, .sample_ids = micro.sample_ids},
                               micro, context_of(micro), options);
    if (!run.pass.finite)
      throw not_finite("a loss", "of samples " + std::to_string(part.begin) + " to " +
                                     std::to_string(part.end - 1));
    errors.added();
    result.terms += terms_of(micro);
  }
  result.accumulation_errors = errors.bounds();
}

Gradients ConfigSubject::by_training(const Parts& parts, const Conditions& conditions,
                                     accum::Accumulation accumulation, Recompute recompute) {
  const KeepState keep(trained_, model_.buffers());
  const auto buffer =
      std::make_shared<accum::GradientBuffer>(trained_, accumulation, config_.run.seed);
  const std::unique_ptr<train::Parallelism> alone = parts_.parallelism();
  TrainedWindow window(
      {config_, model_, *loader_, buffer, config_.run.seed + conditions.seed - 1, *alone},
      {.recompute = recompute, .weighting = conditions.weighting});
  const train::WindowRun run = window.run(0, parts);
  buffers_moved_ = buffers_moved_ || keep.buffers_moved();
  Gradients result = totals_of(run);
  result.accumulation_errors = window.accumulation_errors();
  result.sums_are_biased = sum_roundoff() > 0;
  fixed_point_.reset();
  if (accumulation == accum::Accumulation::fixed)
    fixed_point_ = fixed_point_of(*buffer, window.units());
  // The values that optimizers read, times the weight: this detects a wrong divisor of a window.
  for (std::size_t i = 0; i < trained_.size(); ++i)
    result.sums.push_back(
        run.gradient->source(i)
            .scaled_copy(run.gradient->scale() * result.weight, trained_[i].tensor.detach())
            .cpu());
  return result;
}

Gradients ConfigSubject::accumulated(const Parts& parts, const Conditions& conditions) {
  const accum::Accumulation accumulation = config_.precision.accumulate;
  // Training only knows this mode: the others serve to find causes.
  return conditions.mode == Mode::training
             ? by_training(parts, conditions, accumulation, recompute_)
             : run(parts, conditions, accumulation);
}

double ConfigSubject::rounds_elsewhere() const {
  const models::Compute compute = config_.precision.compute;
  return is_mixed(compute) ? unit_roundoff(models::activation_dtype(compute)) : 0;
}

double ConfigSubject::sum_roundoff() const {
  return sums_are_bf16(config_) ? roundoff_of(config_.precision.accumulate) : 0;
}

bool ConfigSubject::folds() const { return train::folds_gradients(config_); }

Gradients ConfigSubject::folded(const Parts& parts, std::vector<double> accumulation_errors) {
  train::Config config = with_exact_moments(config_, StepsBy::folding);
  config.optim.weight_decay = 0;
  const FoldedMoment moment = config.optim.kind == train::OptimizerKind::adama
                                  ? FoldedMoment{"exp_avg.", 1 - config.optim.beta1}
                                  : FoldedMoment{"momentum."};
  Gradients result = folded_into(*parts_.optimizer(config, trained_), moment, parts);
  result.accumulation_errors = std::move(accumulation_errors);
  return result;
}

Gradients ConfigSubject::folded_into(optim::Optimizer& optimizer, const FoldedMoment& moment,
                                     const Parts& parts) {
  const KeepState keep_state(trained_, model_.buffers());
  const KeepParameters keep(trained_);
  const std::unique_ptr<train::Parallelism> alone = parts_.parallelism();
  TrainedWindow window(
      {config_, model_, *loader_, train::make_gradient_buffer(config_, model_, &optimizer),
       config_.run.seed, *alone},
      {.recompute = recompute_});
  train::WindowRun run = window.run(0, parts);
  Gradients result = totals_of(run);
  // Until its step an optimizer is between two states.
  optimizer.step(std::move(run.gradient).value(), 0);
  const NamedParameters state = optimizer.state();
  for (const NamedParameter& parameter : trained_) {
    const auto found =
        std::ranges::find(state, moment.prefix + parameter.name, &NamedParameter::name);
    result.sums.push_back(found->tensor.detach() * (result.weight / moment.share));
  }
  return result;
}

Gradients ConfigSubject::by_ranks(std::int64_t ranks, const train::MicroDecision& micro) {
  const KeepState keep(trained_, model_.buffers());  // ranks' threads share the generator
  const std::unique_ptr<memory::ShardScope> scope = scope_of_ranks(work_.config);
  return window_of_ranks(work_, copies_of_model(ranks), micro, parts_);
}

std::vector<std::vector<at::Tensor>> ConfigSubject::after_steps_of_ranks(
    std::int64_t ranks, const train::MicroDecision& micro,
    const std::vector<batch::Range>& windows) {
  const KeepState keep(trained_, model_.buffers());
  const train::Workload work{.config = with_exact_moments(config_, StepsBy::buffer),
                             .data = work_.data,
                             .schedule = work_.schedule,
                             .ranks = work_.ranks};
  const std::unique_ptr<memory::ShardScope> scope = scope_of_ranks(work.config);
  return parameters_after_steps_of_ranks(work, copies_of_model(ranks), micro, windows, parts_);
}

std::vector<std::unique_ptr<models::Model>> ConfigSubject::copies_of_model(
    std::int64_t count) const {
  std::vector<std::unique_ptr<models::Model>> copies;
  while (std::ssize(copies) < count) copies.push_back(copy_of(model_, config_, parts_));
  return copies;
}

Gradients ConfigSubject::autograd_pass(batch::Range part, std::int64_t window,
                                       const Conditions& conditions,
                                       const kernels::Operations& operations) {
  const KeepState keep(trained_, model_.buffers());
  const batch::MicroBatch micro = loader_->fetch(part);
  ForwardContext context =
      batch::training_context(micro, config_.run.seed + conditions.seed - 1, window);
  context.training = conditions.mode == Mode::training;
  context.operations = &operations;
  const at::AutoGradMode with_grad(true);
  const Loss loss =
      loss_of(model_, micro, context, loss_totals(model_, micro), conditions.weighting);
  buffers_moved_ = buffers_moved_ || keep.buffers_moved();
  Gradients result{
      .weight = loss.weight, .loss_sum = loss.sum.item<double>(), .terms = terms_of(micro)};
  const bool is_plain = &operations == &kernels::plain_operations();
  if (!std::isfinite(result.loss_sum)) throw not_finite("a loss", text_of(part), is_plain);
  result.sums = gradients_of(loss.sum, trained_);
  for (std::size_t i = 0; i < trained_.size(); ++i)
    if (!std::isfinite(l2_norm(result.sums[i])))
      throw not_finite("a gradient", "of " + trained_[i].name, is_plain);
  return result;
}

Gradients ConfigSubject::one_pass(batch::Range part, const Conditions& conditions) {
  return autograd_pass(part, 0, conditions, kernels::plain_operations());
}

Gradients ConfigSubject::pass_by(const kernels::Operations& operations, batch::Range part) {
  return autograd_pass(part, 0, {}, operations);
}

Gradients ConfigSubject::native_pass(batch::Range part, const Conditions& conditions) {
  return run({part}, conditions, accum::Accumulation::fp32);
}

Gradients ConfigSubject::in_passes(const Parts& parts, const Conditions& conditions) {
  // Only training can compute statistics over all parts.
  if (exact_ && parts.size() > 1 && conditions.mode == Mode::training)
    return by_training(parts, conditions, accum::Accumulation::fp32, Recompute::none);
  return Subject::in_passes(parts, conditions);
}

Gradients ConfigSubject::run(const Parts& parts, const Conditions& conditions,
                             accum::Accumulation accumulation) {
  const KeepState keep(trained_, model_.buffers());
  accum::Window window(
      std::make_shared<accum::GradientBuffer>(trained_, accumulation, config_.run.seed));
  Gradients result;
  window.open(0);
  fill(window, parts, conditions, result);
  buffers_moved_ = buffers_moved_ || keep.buffers_moved();
  result.weight = window.ledger().committed_weight();
  result.loss_sum = window.ledger().committed_loss_sum();
  for (const Entry& entry : window.buffer()->entries()) {
    result.sums.push_back(sum_of(entry).cpu());
    if (!std::isfinite(l2_norm(result.sums.back())))
      throw not_finite("a gradient", "of " + entry.name);
  }
  window.set_replay({});
  window.discard();
  return result;
}

std::vector<std::string> ConfigSubject::foreign(models::ForeignLayer::Kind kind) const {
  std::vector<std::string> names;
  for (const models::ForeignLayer& layer : model_.foreign_layers())
    if (layer.kind == kind) names.push_back(layer.name);
  return names;
}

std::vector<std::string> ConfigSubject::batch_norms() const {
  if (exact_) return {};
  const models::BatchNorms found = models::find_batch_norms(model_);
  std::vector<std::string> names = found.cut;
  for (const models::ForeignLayer& layer : found.uncut) names.push_back(layer.name);
  return names;
}

std::vector<std::string> ConfigSubject::dropouts() const {
  return foreign(models::ForeignLayer::Kind::dropout);
}

std::unique_ptr<ConfigSubject> ConfigSubject::twin_in_double() {
  if (config_.precision.compute == models::Compute::fp64) return nullptr;
  auto twin = std::make_unique<ConfigSubject>(
      work_, parts_, copy_of(model_, config_of(config_, /*is_twin=*/true), parts_));
  twin->set_recompute(recompute_);
  return twin;
}

std::vector<at::Tensor> ConfigSubject::after_steps(const std::vector<Parts>& windows,
                                                   const Conditions& conditions, StepsBy by) {
  const KeepState keep_state(trained_, model_.buffers());
  const KeepParameters keep(trained_);
  const train::Config config = with_exact_moments(config_, by);
  const std::unique_ptr<optim::Optimizer> optimizer = parts_.optimizer(config, trained_);
  const std::unique_ptr<train::Parallelism> alone = parts_.parallelism();
  TrainedWindow window(
      {config, model_, *loader_, train::make_gradient_buffer(config, model_, optimizer.get()),
       config.run.seed + conditions.seed - 1, *alone},
      {.recompute = recompute_, .weighting = conditions.weighting});
  for (std::size_t i = 0; i < windows.size(); ++i) {
    train::WindowRun run = window.run(static_cast<std::int64_t>(i), windows[i]);
    if (!run.gradient) continue;
    parts_.step(*optimizer, std::move(*run.gradient), config.optim, {0, 1});
  }
  return copies_of(trained_);
}

std::vector<at::Tensor> ConfigSubject::after_reference_steps(
    const std::vector<batch::Range>& windows, const Conditions& conditions) {
  const KeepParameters keep(trained_);
  ReferenceOptimizer optimizer(config_.optim, trained_);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Gradients pass = autograd_pass(windows[i], static_cast<std::int64_t>(i), conditions,
                                         kernels::plain_operations());
    if (pass.weight > 0) optimizer.step(pass.sums, pass.weight);
  }
  return copies_of(trained_);
}

bool ConfigSubject::counts(std::int64_t draw) const {
  const batch::MicroBatch micro = loader_->fetch({draw, draw + 1});
  if (micro.is_empty()) return false;
  if (!micro.targets.defined()) return true;  // the loss defines what counts
  at::Tensor counted = micro.targets.ne(kernels::ignored_label);
  if (micro.weights.defined()) counted = counted.logical_and(micro.weights.gt(0));
  return counted.any().item<bool>();
}

batch::Range ConfigSubject::counting(batch::Range samples, std::int64_t count) const {
  std::int64_t first = samples.begin;
  while (first < samples.end && !counts(first)) ++first;
  if (first == samples.end) first = samples.begin;
  count = std::min(count, samples.size());
  first = std::min(first, samples.end - count);
  return {first, first + count};
}

DataCheck ConfigSubject::check_data(const Parts& parts) const {
  DataCheck check = check_draws(work_);
  check.loading_faults = faults_of_loading(*loader_, parts);
  if (loader_->fetch({window_.begin, window_.begin + 1}).own.is_there())
    check.left_out.emplace_back(
        "whether samples are the same in each micro-batch: a batch type of the program's own is "
        "not looked into");
  const data::Source& train = *work_.data.train;
  const bool is_own = config_.custom && config_.custom->train;
  // Columns of one number each also have equal numbers of tokens per sample, without order.
  const bool is_running_text =
      train.uniform_tokens() && !train.image_shape() && !is_own && config_.data.columns.empty();
  if (!is_running_text) return check;
  const batch::Range first{window_.begin, window_.begin + 1};
  const batch::MicroBatch micro = loader_->fetch(first);
  const bool hides = config_.loss.kind == models::LossKind::mlm;
  std::ranges::move(
      hides ? faults_of_hidden_tokens(micro, loader_->fetch_full(first)) : faults_of_labels(micro),
      std::back_inserter(check.faults));
  return check;
}

std::vector<std::string> ConfigSubject::moved_frozen_parameters() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < frozen_.size(); ++i)
    if (frozen_before_[i].moved()) names.push_back(frozen_[i].name);
  return names;
}

}  // namespace accrue::proof
