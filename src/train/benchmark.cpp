#include "accrue/train/benchmark.h"

#include <algorithm>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/kernels/grad_slot.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/normalisation.h"
#include "accrue/train/forward_backward.h"
#include "accrue/train/setup.h"
#include "accrue/train/workload.h"
#include "exact_runner.h"
#include "gemm_ceiling.h"
#include "model_factory.h"

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
    scratch_ = at::empty({largest}, dtype);
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

/// A config's model, data and optimizer, and what is measured on them.
class Bench {
 public:
  explicit Bench(const Config& config)
      : work_(open_workload(config)),
        micro_(choose_micro_batch(work_)),
        optimizer_(make_optimizer(work_.config, model().parameters())),
        loader_(work_.data.train, make_sampler(work_.config, *work_.data.train)) {
    models::check_batch_norms(model(), models::batch_norm_policy(work_.config.model.batchnorm));
  }

  struct WindowTimes {
    double accumulation = 0;
    double optimizer = 0;
    double loss = 0;
  };

  WindowTimes accumulated_window(std::int64_t index) {
    accum::Window window(make_gradient_buffer(work_.config, model(), optimizer_.get()));
    WindowRun run =
        make_runner(work_.config, model(), window, loader_, {}, {.recompute = micro_.recompute})
            ->run(index, work_.schedule.window(0), micro_.samples);
    if (!run.gradient || run.quarantined > 0) {
      throw runtime_error("bench", "finite losses",
                          std::to_string(run.quarantined) + " micro-batches without one",
                          "a lower optim.lr");
    }
    WindowTimes times{.accumulation = run.seconds, .loss = run.loss_sum / run.weight};
    const Stopwatch watch;
    if (work_.config.optim.clip > 0) {
      run.gradient->clip(work_.config.optim.clip);
    } else if (run.gradient->has_values()) {
      run.gradient->norm();
    }
    optimizer_->step(std::move(*run.gradient), work_.config.optim.lr);
    times.optimizer = run.closing_seconds + watch.seconds();
    return times;
  }

  double bare_window() {
    ScratchGradients scratch(model().parameters());
    const std::vector<batch::Range> parts = batch::split(work_.schedule.window(0), micro_.samples);
    loader_.prefetch(parts);
    const Stopwatch watch;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      scratch.renew();
      const batch::MicroBatch micro = loader_.next();
      forward_backward(model(), micro, batch::training_context(micro, work_.config.run.seed, 0),
                       {.factors = std::vector<double>(model().losses().size(), 1.0),
                        .recompute = micro_.recompute});
    }
    return watch.seconds();
  }

  std::int64_t micro_batch() const { return micro_.samples; }
  Recompute recompute() const { return micro_.recompute; }
  std::int64_t micro_batches() const {
    return (work_.schedule.window(0).size() + micro_.samples - 1) / micro_.samples;
  }
  std::int64_t window_samples() const { return work_.schedule.window(0).size(); }
  std::int64_t window_tokens() const {
    const std::int64_t tokens = work_.schedule.tokens(0);
    return tokens > 0 ? tokens : window_samples();
  }
  bool images() const { return work_.data.train->image_shape().has_value(); }
  models::Model& model() const { return *work_.model; }
  const Config& config() const { return work_.config; }

 private:
  Workload work_;
  MicroDecision micro_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  data::Loader loader_;
};

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

BenchmarkResult benchmark(const Config& config, const BenchmarkOptions& options) {
  if (options.rounds < 1)
    throw usage_error("bench", "at least 1 round", std::to_string(options.rounds), "--rounds 5");
  use_resources(config);
  Bench bench(config);
  BenchmarkResult result;
  result.micro_batch = bench.micro_batch();
  result.recompute = bench.recompute();
  result.micro_batches = bench.micro_batches();
  result.micro_batch_tokens = bench.window_tokens() / bench.micro_batches();
  result.images = bench.images();
  result.parameters = models::parameter_count(bench.model());

  const auto count = static_cast<double>(bench.micro_batches());
  const auto tokens = static_cast<double>(bench.window_tokens());
  const models::Compute compute = compute_of(bench.config());
  const std::vector<GemmShape> shapes =
      gemm_shapes(bench.config().model, result.micro_batch_tokens);
  std::vector<double> speed, bare, accumulated, overhead, optimizer, ceiling, peak;
  bench.bare_window();
  bench.accumulated_window(0);
  result.peak_resident_bytes = memory::peak_resident_bytes();
  for (std::int64_t round = 1; round <= options.rounds; ++round) {
    const memory::PeakScope memory_peak;
    const Bench::WindowTimes times = bench.accumulated_window(round);
    result.loss = times.loss;
    result.peak_bytes = std::max(result.peak_bytes, memory_peak.peak().live);
    accumulated.push_back(times.accumulation / count);
    optimizer.push_back(times.optimizer);
    speed.push_back(tokens / (times.accumulation + times.optimizer));
    bare.push_back(bench.bare_window() / count);
    overhead.push_back(accumulated.back() / bare.back() - 1);
    ceiling.push_back(measure_gemm_rate(shapes, compute));
    peak.push_back(measure_gemm_rate({{2048, 2048, 2048, 1}}, compute));
  }
  result.tokens_per_second = spread_of(speed);
  result.bare_seconds_per_micro_batch = spread_of(bare);
  result.seconds_per_micro_batch = spread_of(accumulated);
  result.accumulation_overhead = spread_of(overhead).median;
  result.optimizer_seconds = spread_of(optimizer);
  result.ceiling_gflops = spread_of(ceiling).median / 1e9;
  result.peak_gflops = spread_of(peak).median / 1e9;
  result.model_gflops = static_cast<double>(bench.model().flops_per_sample()) *
                        static_cast<double>(bench.window_samples()) /
                        (result.seconds_per_micro_batch.median * count) / 1e9;
  result.share_of_ceiling = result.model_gflops / result.ceiling_gflops;
  return result;
}

}  // namespace accrue::train
