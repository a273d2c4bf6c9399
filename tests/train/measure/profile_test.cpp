#include "train/measure/profile.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include "accrue/core/clock.h"
#include "core/kernel_span.h"
#include "train/measure/gemm_shapes.h"
#include "train/measure/kernel_names.h"
#include "train/measure/kernel_times.h"
#include "train/measure/micro_sweep.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

void run_kernel(
    const char* name, int milliseconds, std::int64_t flops,
    const std::function<void()>& callee = [] {}) {
  RECORD_FUNCTION(name, span_of({at::ones({256})}, flops));
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  callee();
}

KernelTime time_of(const std::vector<KernelTime>& times, const std::string& kernel) {
  for (const KernelTime& time : times)
    if (time.kernel == kernel) return time;
  return {};
}

TEST(KernelTimes, GivesACalleesTimeToTheCalleeAlone) {
  std::vector<KernelTime> times;
  const Stopwatch elapsed;
  {
    const KernelTimes listening;
    run_kernel("accrue::outer", 5, 7, [] {
      run_kernel("accrue::inner", 20, 11);
      run_kernel("accrue::inner", 20, 11);
    });
    times = listening.by_time();
  }
  const double all_seconds = elapsed.seconds();
  run_kernel("accrue::later", 0, 1);  // after the profile has ended
  const KernelTime outer = time_of(times, "outer"), inner = time_of(times, "inner");
  EXPECT_EQ(outer.calls, 1);
  EXPECT_EQ(inner.calls, 2);
  EXPECT_EQ(outer.flops, 7);
  EXPECT_EQ(inner.flops, 22);
  EXPECT_EQ(inner.bytes, 2 * 256 * 4);
  EXPECT_GE(outer.seconds, 0.005);
  EXPECT_GE(inner.seconds, 0.040);
  // If the callee's time were also in its caller's, the sum would be nearly twice the elapsed time.
  EXPECT_LE(outer.seconds + inner.seconds, all_seconds);
  EXPECT_TRUE(std::ranges::is_sorted(times, std::greater<>(), &KernelTime::seconds));
  EXPECT_EQ(time_of(times, "later").calls, 0);
}

TEST(KernelNames, AreForPeople) {
  EXPECT_EQ(readable_kernel("aten::add_"), "add_");
  EXPECT_EQ(readable_kernel("AddBackward0"), "Add backward");
  EXPECT_EQ(readable_kernel("torch::autograd::AccumulateGrad"), "AccumulateGrad");
  EXPECT_EQ(readable_kernel("struct torch::autograd::CppNode<struct accrue::kernels::(anonymous "
                            "namespace)::LinearFunction>"),
            "LinearFunction");
  EXPECT_EQ(readable_kernel("matmul 64x128x32"), "matmul 64x128x32");
  EXPECT_EQ(part_of("matmul 64x128x32", false), "linear forward");
  EXPECT_EQ(part_of("matmul 64x128x32", true), "linear backward");
  EXPECT_EQ(part_of("attention_backward", true), "attention backward");
  EXPECT_EQ(part_of("gradient_norm", false), "optimizer") << "not of the layers' norms";
  EXPECT_EQ(part_of("layer_norm", false), "norms forward");
  EXPECT_EQ(part_of("cross_entropy_backward", true), "loss");
  EXPECT_EQ(part_of("add_", true), "other operations backward");
}

class ProfileRun : public testing::TinyRun {};

TEST_F(ProfileRun, CountsTheProductsOfTheModelsLayers) {
  Config c = config();
  c.model.vocab = 256;  // bytes
  c.batch.tokens = 8 * 16;
  c.batch.micro = 4;
  const Profile result = profile(c);
  ASSERT_GT(result.micro_batches, 1);
  double flops = 0, kernels = 0;
  for (const KernelCost& cost : result.kernels) {
    kernels += cost.seconds;
    EXPECT_GE(cost.seconds, 0) << cost.kernel;
    EXPECT_GE(cost.share_of_ceiling, 0) << cost.kernel;
    for (const char* mangled : {"::", "struct", "<", "Backward0"})
      EXPECT_EQ(cost.kernel.find(mangled), std::string::npos) << cost.kernel;
    if (!cost.kernel.starts_with("matmul")) continue;
    flops += cost.gflops * 1e9 * cost.seconds;
    EXPECT_NEAR(cost.share_of_ceiling, cost.gflops / result.peak_gflops,
                1e-9 * cost.share_of_ceiling)
        << cost.kernel;
  }
  EXPECT_NEAR(kernels + result.rest_seconds, result.seconds, 1e-9);
  double parts = 0;
  std::set<std::string> names;
  for (const Profile::Part& part : result.parts) {
    parts += part.seconds;
    names.insert(part.name);
  }
  EXPECT_NEAR(parts, kernels, 1e-9);
  for (const char* part : {"linear forward", "linear backward", "attention forward",
                           "attention backward", "norms backward", "loss", "optimizer"})
    EXPECT_TRUE(names.contains(part)) << part;
  EXPECT_GT(result.rest_seconds, 0);
  // The closed form: three products of each layer for the tokens of a micro-batch.
  double expected = 0;
  for (const GemmShape& shape : gemm_shapes(c.model, 4 * 16)) expected += shape.flops();
  EXPECT_NEAR(flops, expected, 1e-6 * expected);
  EXPECT_GT(result.bandwidth_gbps, 0);
  EXPECT_GT(result.peak_gflops, 0);
}

TEST_F(ProfileRun, TheSweepTakesTheSameBatchByEverySize) {
  Config c = config();
  c.batch.tokens = 8 * 16;
  const MicroSweep sweep = sweep_micro(c, {.rounds = 1});
  EXPECT_EQ(sweep.batch_samples, 8);
  ASSERT_EQ(sweep.sizes.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sweep.sizes[i].micro_batch, 8 >> i);
    EXPECT_EQ(sweep.sizes[i].micro_batches, 1 << i);
    EXPECT_TRUE(sweep.sizes[i].fits);
    EXPECT_GT(sweep.sizes[i].seconds.median, 0);
  }
  EXPECT_EQ(sweep.sizes[0].relative_seconds, 1);
  EXPECT_EQ(sweep.sizes[0].relative_peak_bytes, 1);
  EXPECT_LT(sweep.sizes[3].relative_peak_bytes, 1);
}

}  // namespace
}  // namespace accrue::train
