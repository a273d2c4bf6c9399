// Ranks with GPUs, as far as one GPU can show them.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "distributed/group/device_engine.h"
#include "integration/ranks/distributed_run.h"
#include "support/skip.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;
using testing::Words;

class CudaRanks : public testing::DistributedRun {
 protected:
  void SetUp() override {
    DistributedRun::SetUp();
    try {
      device::open("cuda");
    } catch (const Error& error) {
      accrue::testing::not_possible_here(
          "there is no CUDA device, or this libtorch has no part for one");
    }
  }

  Config on_gpu(const std::string& out) const {
    Config c = small(out);
    c.run.device = Device::cuda;
    return c;
  }
  /// Ranks that share the first GPU, while a launcher would give each a separate one.
  void expect_shared_gpu_runs(const Config& c, int world) const {
    Words words = command(c);
    words.insert(words.begin(), "LOCAL_RANK=0");
    for (const auto& result :
         accrue::testing::run_ranks(folder_, world, world, [&](int) { return words; }))
      EXPECT_EQ(result.status, 0) << result.errors;
  }
};

TEST_F(CudaRanks, AddUpTheSumsOfOneGpuThroughGloo) {
  const Config alone = on_gpu("alone");
  expect_runs(alone, 1);
  for (const Reduce reduce : {Reduce::overlap, Reduce::end}) {
    Config c = alone;
    c.run.out = (folder_ / reduce_words.of(reduce)).string();
    c.dist.reduce = reduce;
    c.dist.backend = Backend::gloo;
    expect_shared_gpu_runs(c, 2);
    EXPECT_TRUE(are_close(c, alone));
    EXPECT_TRUE(evaluates_alike(c, alone));
  }
}

TEST_F(CudaRanks, HaveTheBitsOfOneProcessInFixedPoint) {
  Config alone = on_gpu("alone");
  alone.precision.accumulate = accum::Accumulation::fixed;
  expect_runs(alone, 1);
  Config c = alone;
  c.run.out = (folder_ / "together").string();
  c.dist.backend = Backend::gloo;
  expect_shared_gpu_runs(c, 2);
  expect_same_bits(parameters_of(c), parameters_of(alone));
}

TEST_F(CudaRanks, AreRefusedWhereOneHasNoGpuOfItsOwn) {
  const auto count = static_cast<int>(c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount());
  const auto results = run(on_gpu("run"), count + 1);
  EXPECT_EQ(results.back().status, 2);
  EXPECT_THAT(results.back().errors, HasSubstr("as many ranks on a machine as it has devices"));
}

TEST_F(CudaRanks, NcclMovesWhatItIsAskedFor) {
  if (!distributed::has_nccl()) return accrue::testing::not_possible_here("this build has no NCCL");
  const auto engine = distributed::make_nccl_engine(
      {.store = c10::make_intrusive<c10d::HashStore>(), .timeout = std::chrono::seconds(60)});
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kLong, at::kByte}) {
    const at::Tensor values = at::arange(1000).to(dtype).cuda();
    std::vector<at::Tensor> tensors{values};
    const auto work = engine->allreduce(tensors);
    while (!work->isCompleted()) std::this_thread::yield();
    EXPECT_TRUE(work->wait());
    EXPECT_TRUE(values.cpu().equal(at::arange(1000).to(dtype))) << dtype;
  }
}

}  // namespace
}  // namespace accrue::train
