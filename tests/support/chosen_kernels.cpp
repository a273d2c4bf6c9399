#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "accrue/kernels/kernel_choice.h"

namespace accrue::testing {
namespace {

/// Runs a whole test program with the kernels that ACCRUE_TEST_KERNELS names.
class ChosenKernels final : public ::testing::Environment {
 public:
  void SetUp() override {
    const char* name = std::getenv("ACCRUE_TEST_KERNELS");
    if (name == nullptr) return;
    const auto kernels = kernels::kernels_words.find(name);
    ASSERT_TRUE(kernels.has_value()) << "ACCRUE_TEST_KERNELS=" << name;
    scope_.emplace(*kernels);
  }
  void TearDown() override { scope_.reset(); }

 private:
  std::optional<kernels::KernelScope> scope_;
};

const auto* const registered = ::testing::AddGlobalTestEnvironment(new ChosenKernels);

}  // namespace
}  // namespace accrue::testing
