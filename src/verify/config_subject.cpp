#include "verify/config_subject.h"

#include <ATen/ATen.h>

#include <cmath>

#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "train/pass/forward_backward.h"
#include "train/pass/run_micro_batch.h"
#include "train/window/exact/exact_window.h"
#include "verify/comparison.h"
#include "verify/module_subject.h"
#include "verify/running_errors.h"

namespace accrue::proof {
namespace {

using Entry = accum::GradientBuffer::Entry;

accum::Accumulation accumulation_of(const train::Config& config, bool twin) {
  return twin ? accum::Accumulation::fp64 : config.precision.accumulate;
}

/// The same steps from sums that can be compared, with moments that rounding does not make jump.
train::Config summed_in_a_buffer(train::Config config) {
  config.memory.gradients = train::GradientPlace::buffer;
  config.optim.state = optim::StatePrecision::fp32;
  return config;
}

Error not_finite(const std::string& what, const std::string& where) {
  return usage_error("verify", "finite losses and gradients", what + " that is not, " + where,
                     "looking at the data of this batch, or a model that does not overflow");
}

}  // namespace

ConfigSubject::ConfigSubject(const train::Workload& work, std::unique_ptr<models::Model> twin)
    : work_(work),
      twin_(std::move(twin)),
      model_(twin_ ? *twin_ : *work.model),
      loader_(std::make_unique<data::Loader>(work.data.train,
                                             train::make_sampler(work.config, *work.data.train))),
      window_(work.schedule.window(0)),
      exact_(train::is_exact(work.config, model_)) {
  for (const NamedParameter& parameter : model_.parameters())
    if (parameter.tensor.requires_grad()) trained_.push_back(parameter);
}

void ConfigSubject::fill(accum::Window& window, const Parts& parts, std::int64_t index,
                         const Conditions& conditions, Gradients& result) {
  const auto context_of = [&](const batch::MicroBatch& micro) {
    ForwardContext context =
        batch::training_context(micro, work_.config.run.seed + conditions.seed - 1, index);
    context.training = conditions.mode == Mode::training;
    return context;
  };
  const train::PassOptions options{.weighting = conditions.weighting};
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
    if (on_part_) on_part_();
  }
  result.accumulation_errors = errors.bounds();
}

void ConfigSubject::fill_exactly(accum::Window& window, const Parts& parts, std::int64_t index,
                                 const Conditions& conditions, Gradients& result) {
  train::ExactWindow exact(model_, window,
                           [this](batch::Range part) { return loader_->fetch(part); },
                           work_.config.run.seed + conditions.seed - 1,
                           {.on_progress = [this](std::int64_t, std::int64_t) {
                             if (on_part_) on_part_();
                           }});
  window.set_replay([&](const MicroRef&) { return exact.replay(); });
  const train::ExactRun run = exact.run(index, parts);
  window.set_replay({});
  if (!run.quarantined.empty()) throw not_finite("a loss", "in the exact window");
  // The contributions interleave: the last sum stands for each before it.
  RunningErrors errors(*window.buffer());
  for (std::size_t i = 0; i < parts.size(); ++i) errors.added();
  result.accumulation_errors = errors.bounds();
}

Gradients ConfigSubject::accumulated(const Parts& parts, const Conditions& conditions) {
  return run(parts, conditions, accumulation_of(work_.config, twin_ != nullptr));
}

Gradients ConfigSubject::one_pass(batch::Range part, const Conditions& conditions) {
  return run({part}, conditions, accum::Accumulation::fp32);
}

Gradients ConfigSubject::in_passes(const Parts& parts, const Conditions& conditions) {
  return run(parts, conditions, accum::Accumulation::fp32);
}

Gradients ConfigSubject::run(const Parts& parts, const Conditions& conditions,
                             accum::Accumulation accumulation) {
  const KeepState keep(trained_, model_.buffers());
  accum::Window window(
      std::make_shared<accum::GradientBuffer>(trained_, accumulation, work_.config.run.seed));
  const auto& entries = window.buffer()->entries();
  Gradients result;
  window.open(0);
  if (exact_ && parts.size() > 1 && conditions.mode == Mode::training) {
    fill_exactly(window, parts, 0, conditions, result);
  } else {
    fill(window, parts, 0, conditions, result);
  }
  buffers_moved_ = buffers_moved_ || keep.buffers_moved();
  result.weight = window.ledger().committed_weight();
  result.loss_sum = window.ledger().committed_loss_sum();
  for (const Entry& entry : entries) {
    result.sums.push_back(sum_of(entry));
    if (!std::isfinite(l2_norm(result.sums.back())))
      throw not_finite("a gradient", "of " + entry.name);
  }
  window.set_replay({});
  window.discard();
  if (result.weight > 0) return result;
  throw usage_error("verify", "a batch with labels that count", "a total weight of 0",
                    "another data.order, run.seed or batch");
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
  if (work_.config.precision.compute == models::Compute::fp64 || twin_) return nullptr;
  train::Config config = work_.config;
  config.precision.compute = models::Compute::fp64;
  std::unique_ptr<models::Model> twin = train::make_model(config);
  const at::NoGradGuard no_grad;
  const auto copy = [](const NamedParameters& from, const NamedParameters& to) {
    for (std::size_t i = 0; i < from.size(); ++i)
      if (to[i].tensor.defined()) at::Tensor(to[i].tensor).copy_(from[i].tensor);
  };
  copy(model_.parameters(), twin->parameters());
  copy(model_.buffers(), twin->buffers());
  return std::make_unique<ConfigSubject>(work_, std::move(twin));
}

std::vector<at::Tensor> ConfigSubject::after_steps(const std::vector<Parts>& windows,
                                                   const Conditions& conditions) {
  const KeepState keep_state(trained_, model_.buffers());
  const KeepParameters keep(trained_);
  const train::Config config = summed_in_a_buffer(work_.config);
  const std::unique_ptr<optim::Optimizer> optimizer = train::make_optimizer(config, trained_);
  accum::Window window(std::make_shared<accum::GradientBuffer>(
      trained_, accumulation_of(config, twin_ != nullptr), config.run.seed));
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    Gradients unused;
    window.open(index);
    if (exact_ && windows[i].size() > 1) {
      fill_exactly(window, windows[i], index, conditions, unused);
    } else {
      fill(window, windows[i], index, conditions, unused);
    }
    std::optional<accum::MeanGradient> gradient = window.close();
    if (!gradient) continue;
    if (config.optim.clip > 0) gradient->clip(config.optim.clip);
    optimizer->step(std::move(*gradient), config.optim.lr);
  }
  window.set_replay({});
  std::vector<at::Tensor> result;
  for (const NamedParameter& parameter : trained_)
    result.push_back(parameter.tensor.detach().clone());
  return result;
}

}  // namespace accrue::proof
