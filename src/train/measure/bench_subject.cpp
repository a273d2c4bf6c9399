#include "train/measure/bench_subject.h"

#include <algorithm>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/kernels/grad_slot.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "train/pass/forward_backward.h"
#include "train/plan/acceleration.h"
#include "train/plan/batch_norm_values.h"
#include "train/ranks/single_process.h"
#include "train/run/make_runner.h"
#include "train/run/run_window.h"
#include "train/workload/model_factory.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

/// Slots for bare passes: every parameter's gradient is written into the same scratch memory, the
/// size of the largest, and nothing is kept.
class ScratchGradients {
 public:
  explicit ScratchGradients(const NamedParameters& parameters) {
    std::int64_t largest = 0;
    for (const NamedParameter& p : parameters) largest = std::max(largest, p.tensor.numel());
    const at::ScalarType dtype = parameters.front().tensor.scalar_type();
    scratch_ =
        at::empty({largest}, at::TensorOptions(dtype).device(parameters.front().tensor.device()));
    for (const NamedParameter& p : parameters) {
      auto slot = std::make_shared<kernels::GradSlot>(
          scratch_.narrow(0, 0, p.tensor.numel()).view(p.tensor.sizes()));
      kernels::attach(p.tensor, slot);
      attached_.push_back({p.tensor, std::move(slot)});
    }
  }
  ~ScratchGradients() {
    for (const Attached& a : attached_) {
      kernels::detach(a.parameter);
      a.parameter.mutable_grad() = at::Tensor();
    }
  }
  ScratchGradients(const ScratchGradients&) = delete;
  ScratchGradients& operator=(const ScratchGradients&) = delete;

  void renew() {
    for (const Attached& a : attached_) {
      a.slot->fresh = a.slot->open = true;
      a.parameter.mutable_grad() = at::Tensor();
    }
  }

 private:
  struct Attached {
    at::Tensor parameter;
    std::shared_ptr<kernels::GradSlot> slot;
  };
  at::Tensor scratch_;
  std::vector<Attached> attached_;
};

}  // namespace

void expect_rounds(std::int64_t rounds) {
  if (rounds < 1)
    throw usage_error("bench", "at least 1 round", std::to_string(rounds), "--rounds 5");
}

Workload open_to_measure(const Config& config) {
  use_resources(config);
  Workload work = open_workload(config);
  decide_acceleration(work);
  return work;
}

BenchSubject::BenchSubject(const Config& config)
    : work_(open_to_measure(config)),
      device_(device_of(model())),
      micro_(choose_micro_batch(work_)),
      optimizer_(make_optimizer(work_.config, model().parameters())),
      loader_(work_.data.train, make_sampler(work_.config, *work_.data.train)),
      recorded_(make_recorded_pass(work_.config, model())) {
  models::check_batch_norms(model(), work_.config.model.batchnorm);
  expect_values_for_batch_norm(work_, std::min(micro_.samples, work_.schedule.samples_per_window));
  if (recorded_ == nullptr) return;
  check_recorded_pass(model(), device_);
  kept_buffer_ = make_gradient_buffer(work_.config, model(), optimizer_.get());
}

std::int64_t BenchSubject::window_tokens() const {
  const std::int64_t tokens = work_.schedule.tokens(0);
  return tokens > 0 ? tokens : window_samples();
}

accum::Window BenchSubject::make_window() const {
  if (kept_buffer_ != nullptr) return accum::Window(kept_buffer_);
  return accum::Window(make_gradient_buffer(work_.config, model(), optimizer_.get()));
}

BenchSubject::WindowTimes BenchSubject::accumulated_window(std::int64_t index,
                                                           std::int64_t samples) {
  accum::Window window = make_window();
  return run_window(window, index, samples);
}

void BenchSubject::warm_up() {
  // With recordings the first window shows which ids there are, the second runs what the third
  // records.
  const std::int64_t windows = recorded_ == nullptr ? 1 : 3;
  for (std::int64_t window = 0; window < windows; ++window)
    accumulated_window(window, micro_.samples);
}

BenchSubject::SystemUse BenchSubject::system_use_when_warm() {
  accum::Window window = make_window();
  run_window(window, 0, micro_.samples);
  const std::int64_t allocations = memory::usage().system_calls,
                     page_faults = memory::minor_page_faults();
  run_window(window, 1, micro_.samples);
  return {.allocations = memory::usage().system_calls - allocations,
          .page_faults = memory::minor_page_faults() - page_faults};
}

BenchSubject::WindowTimes BenchSubject::run_window(accum::Window& window, std::int64_t index,
                                                   std::int64_t samples) {
  RunLog log;
  RunControl control;
  memory::Retries retries;
  SingleProcess alone;
  const std::unique_ptr<Runner> runner = make_runner(
      work_.config, {model(), window, loader_, work_.config.run.seed, log, control, retries},
      {.recompute = micro_.recompute, .recorded = recorded_.get()});
  WindowRun run = train::run_window({window, *runner, alone, retries, log},
                                    WindowRequest::even(index, work_.schedule.window(0), samples));
  if (!run.gradient || run.quarantined > 0) {
    throw runtime_error("bench", "finite losses",
                        std::to_string(run.quarantined) + " micro-batches without one",
                        "a lower optim.lr");
  }
  WindowTimes times{.accumulation = run.seconds, .loss = run.loss_sum / run.weight};
  const Stopwatch watch;  // window.close() has waited for the device
  if (work_.config.optim.clip > 0) {
    run.gradient->clip(work_.config.optim.clip);
  } else if (run.gradient->has_values()) {
    run.gradient->norm();
  }
  optimizer_->step(std::move(*run.gradient), work_.config.optim.lr);
  device::synchronize(device_);
  times.optimizer = run.closing_seconds + watch.seconds();
  return times;
}

double BenchSubject::bare_window() {
  ScratchGradients scratch(model().parameters());
  const std::vector<batch::Range> micro_batches =
      batch::split(work_.schedule.window(0), micro_.samples);
  loader_.prefetch(micro_batches);
  const Stopwatch watch;
  for (std::size_t i = 0; i < micro_batches.size(); ++i) {
    scratch.renew();
    const batch::MicroBatch micro = loader_.next();
    forward_backward(model(), micro, batch::training_context(micro, work_.config.run.seed, 0),
                     {.factors = std::vector<double>(model().losses().size(), 1.0),
                      .recompute = micro_.recompute});
  }
  device::synchronize(device_);
  return watch.seconds();
}

}  // namespace accrue::train
