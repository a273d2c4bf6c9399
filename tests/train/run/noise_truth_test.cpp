#include <gmock/gmock.h>

#include "accrue/accum/window.h"
#include "data/loader.h"
#include "train/pass/run_micro_batch.h"
#include "train/recorder.h"
#include "train/tiny_run.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

using testing::Recorder;
using testing::TinyRun;

/// Noise and gradient of a model over all of its data, from the gradient of each single sample.
struct Truth {
  double variance = 0, squared_gradient = 0;  ///< per token
  double scale() const { return variance / squared_gradient; }
};

class NoiseOfAModel : public TinyRun {
 protected:
  /// Parameters that hardly change, so that all windows measure the same gradient.
  Config still(std::int64_t samples) const {
    Config c = config("run" + std::to_string(samples));
    c.run.steps = 160;
    c.optim.lr = 1e-12;
    c.optim.weight_decay = 0;
    c.batch.tokens = samples * 16;
    c.batch.micro = 2;
    c.run.checkpoint_every = {1000, Duration::Unit::steps};
    return c;
  }

  static at::Tensor gradient_of(const accum::GradientBuffer& buffer) {
    std::vector<at::Tensor> parts;
    for (const auto& entry : buffer.entries())
      parts.push_back(entry.slot->main.flatten().to(at::kDouble));
    return at::cat(parts);
  }

  static Truth brute_force(const Config& config) {
    Workload work = open_workload(config);
    const auto buffer = std::make_shared<accum::GradientBuffer>(work.model->parameters());
    accum::Window window(buffer);
    const data::Loader loader(work.data.train, make_sampler(work.config, *work.data.train));
    const std::int64_t samples = work.data.train->size();
    at::Tensor sum;
    double squares = 0, weight = 0;
    for (std::int64_t i = 0; i < samples; ++i) {
      const batch::MicroBatch micro = loader.fetch({i, i + 1});
      window.open(i);
      const MicroBatchRun ran =
          run_micro_batch(window, *work.model, {.index = 0, .sample_ids = micro.sample_ids}, micro,
                          batch::training_context(micro, config.run.seed, i));
      window.close();
      const at::Tensor gradient = gradient_of(*buffer) / ran.pass.weight;
      weight = ran.pass.weight;
      sum = sum.defined() ? sum + gradient : gradient;
      squares += gradient.square().sum().item<double>();
    }
    const auto n = static_cast<double>(samples);
    const double of_mean = (sum / n).square().sum().item<double>();
    const double variance = (squares / n - of_mean) * n / (n - 1);
    return {.variance = variance * weight, .squared_gradient = of_mean - variance / n};
  }
};

/// Two micro-batches are the hardest case: their window's norm is hardly better known than theirs.
TEST_F(NoiseOfAModel, IsWithinATenthOfBruteForceWhereTheBatchIsAQuarterOfIt) {
  const Truth truth = brute_force(still(4));
  for (const auto& [samples, bound] : {std::pair{4, 0.2}, {8, 0.1}, {16, 0.1}}) {
    const Config c = still(samples);
    ASSERT_GE(4. * static_cast<double>(samples * 16), truth.scale());
    Trainer trainer(c);
    const auto recorder = std::make_shared<Recorder>();
    trainer.add_observer(recorder);
    trainer.run();
    const StepReport& last = recorder->steps.back();
    ASSERT_TRUE(last.noise_scale && last.noise_scale_high) << samples;
    EXPECT_NEAR(*last.noise_scale / truth.scale(), 1, bound) << samples;
    EXPECT_NEAR(*last.gradient_variance / truth.variance, 1, bound) << samples;
    EXPECT_LT(*last.noise_scale_low, truth.scale());
    EXPECT_GT(*last.noise_scale_high, truth.scale());
  }
}

}  // namespace
}  // namespace accrue::train
