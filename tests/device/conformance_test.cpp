// Whether the check of a device detects what it is meant for: the CPU passes it, with accrue's
// kernels and with ATen's operators.
#include <gtest/gtest.h>

#include <algorithm>

#include "verify/operations/device_conformance.h"

namespace accrue::proof {
namespace {

TEST(DeviceConformance, TheCpuDoesWhatTrainingAsks) {
  const std::vector<DeviceCheck> checks = check_device(c10::kCPU);
  for (const DeviceCheck& check : checks)
    EXPECT_TRUE(check.passed) << check.name << ": " << check.detail;
  EXPECT_GE(checks.size(), 50u);
}

/// A device with shapes only has no values: every check fails, and none of them throws.
TEST(DeviceConformance, ADeviceWithoutValuesFailsEveryCheck) {
  for (const DeviceCheck& check : check_device(c10::kMeta)) {
    EXPECT_FALSE(check.passed) << check.name;
    EXPECT_FALSE(check.detail.empty()) << check.name;
  }
}

}  // namespace
}  // namespace accrue::proof
