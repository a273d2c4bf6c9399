// What only a GPU can show, in addition to device_run_test.cpp: the list of what the tests of other
// machines do not cover.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <optional>
#include <set>

#include "accrue/core/error.h"
#include "accrue/device/device.h"
#include "accrue/kernels/kernel_choice.h"
#include "device/tested_device.h"
#include "support/skip.h"
#include "verify/operations/device_conformance.h"

namespace accrue::testing {

TestedDevice tested_device() {
  return {.word = "cuda", .width = 256, .context = 256, .failures = 200};
}

std::optional<c10::Device> open_tested_device() {
  try {
    return device::open("cuda");
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Waits are those that the runtime's interface calls so.
std::int64_t waits_in(const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> activities{
      torch::profiler::impl::ActivityType::CPU, torch::profiler::impl::ActivityType::CUDA};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  const auto result = profiler::disableProfiler();
  std::int64_t waits = 0;
  for (const auto& event : result->events())
    waits += event.name().find("Synchronize") != std::string::npos ? 1 : 0;
  return waits;
}

namespace {

using kernels::Kernels;

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!open_tested_device())
      not_possible_here("there is no CUDA device, or this libtorch has no part for one");
  }
};

TEST_F(Cuda, DoesWhatTrainingAsksByCompiledKernelsAndByAten) {
  for (const Kernels kernels : {Kernels::native, Kernels::generic}) {
    const kernels::KernelScope scope(kernels);
    for (const proof::DeviceCheck& check : proof::check_device(*open_tested_device()))
      EXPECT_TRUE(check.passed) << check.name << ": " << check.detail
                                << (kernels == Kernels::native ? "" : ", by ATen alone");
  }
}

}  // namespace
}  // namespace accrue::testing
