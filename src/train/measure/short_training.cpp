#include "train/measure/short_training.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/models/normalisation.h"
#include "train/measure/bench_subject.h"
#include "train/ranks/single_process.h"
#include "train/run/evaluation.h"
#include "train/run/make_runner.h"
#include "train/run/noise_record.h"
#include "train/run/run_window.h"
#include "train/workload/peak_rate.h"

namespace accrue::train {
namespace {

constexpr std::int64_t most_held_out = 512;  ///< samples that are evaluated

}  // namespace

ShortTraining::ShortTraining(const Config& config)
    : work_(open_to_measure(config)),
      micro_(choose_micro_batch(work_)),
      loader_(work_.data.train, make_sampler(work_.config, *work_.data.train)) {
  models::check_batch_norms(*work_.model, work_.config.model.batchnorm);
  for (const NamedParameter& tensor : whole_state())
    start_.push_back(tensor.tensor.detach().clone());
  restart();
}

/// Parameters and buffers.
NamedParameters ShortTraining::whole_state() const {
  NamedParameters state = work_.model->parameters();
  for (NamedParameter& buffer : work_.model->buffers()) state.push_back(std::move(buffer));
  return state;
}

void ShortTraining::restart() {
  noise_.reset();
  buffer_.reset();
  optimizer_.reset();
  const NamedParameters state = whole_state();
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < state.size(); ++i) state[i].tensor.copy_(start_[i]);
  }
  optimizer_ = make_optimizer(work_.config, work_.model->parameters());
  buffer_ = make_gradient_buffer(work_.config, *work_.model, optimizer_.get());
  if (shows_noise(work_))
    noise_ = std::make_unique<NoiseMeter>(*buffer_, *optimizer_,
                                          NoiseMeter::Options{.geometry = NoiseGeometry::optimizer,
                                                              .beta2 = work_.config.optim.beta2,
                                                              .eps = work_.config.optim.eps});
  next_draw_ = window_ = 0;
}

double ShortTraining::stated_rate() const { return peak_rate(work_.config); }

double ShortTraining::units_per_sample() const {
  if (!counts_tokens()) return 1;
  return static_cast<double>(work_.schedule.tokens(0)) / static_cast<double>(batch_samples());
}

ShortTraining::Step ShortTraining::step(std::int64_t samples, double lr) {
  RunLog log;
  RunControl control;
  memory::Retries retries;
  SingleProcess alone;
  accum::Window window(buffer_);
  const std::int64_t window_index = window_++;
  const batch::Range range{next_draw_, next_draw_ + samples};
  next_draw_ = range.end;
  // At least two micro-batches are needed to show the noise.
  const std::int64_t micro = std::min(micro_.samples, std::max<std::int64_t>(1, (samples + 1) / 2));
  if (noise_) noise_->begin(window_index);
  Step step;
  const Stopwatch watch;
  try {
    const std::unique_ptr<Runner> runner = make_runner(
        work_.config, {*work_.model, window, loader_, work_.config.run.seed, log, control, retries},
        {.recompute = micro_.recompute, .noise = noise_.get()});
    WindowRun run = train::run_window({window, *runner, alone, retries, log},
                                      WindowRequest::even(window_index, range, micro));
    step.is_finite = run.gradient.has_value() && run.quarantined == 0;
    if (!step.is_finite) return step;
    step.loss = run.loss_sum / run.weight;
    step.weight = run.weight;
    step.units = counts_tokens() ? run.tokens : samples;
    if (noise_) {
      const auto reading = noise_->read(run.noise_sums, *run.gradient);
      if (reading) step.noise = reading->in_geometry ? reading->in_geometry : reading->total;
    }
    if (work_.config.optim.clip > 0) run.gradient->clip(work_.config.optim.clip);
    optimizer_->step(std::move(*run.gradient), lr);
  } catch (const Error& error) {
    // Too many micro-batches without a finite loss end a window; other errors are rethrown.
    const bool is_quarantined = window.ledger().count(MicroStatus::quarantined) > 0;
    if (error.kind() != Error::Kind::runtime || !is_quarantined) throw;
    step.is_finite = false;
  }
  step.seconds = watch.seconds();
  return step;
}

std::optional<double> ShortTraining::held_out_loss() {
  if (!work_.data.val) return std::nullopt;
  const auto evaluation = evaluate_source(
      *work_.model, *work_.data.val, {.micro_batch = micro_.samples, .max_samples = most_held_out});
  return evaluation ? std::optional(evaluation->loss) : std::nullopt;
}

}  // namespace accrue::train
