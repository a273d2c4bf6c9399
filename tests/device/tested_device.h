#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace accrue::testing {

/// The facts that device_run_test.cpp needs about a program's device.
struct TestedDevice {
  const char* word;             ///< in run.device
  std::int64_t width, context;  ///< of a model whose activations are larger than its parameters
  std::int64_t failures;        ///< how many allocations the device is to fail
};

// Defined in each program.

TestedDevice tested_device();
/// Returns none if this machine has no such device: then tests are skipped.
std::optional<c10::Device> open_tested_device();
/// How often the host waits for the device while `work` runs.
std::int64_t waits_in(const std::function<void()>& work);

}  // namespace accrue::testing
