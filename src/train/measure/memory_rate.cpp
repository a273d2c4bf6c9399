#include "train/measure/memory_rate.h"

#include <ATen/Functions.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "accrue/core/clock.h"
#include "accrue/device/device.h"
#include "core/median.h"

namespace accrue::train {

double measure_memory_rate(c10::Device device) {
  constexpr std::int64_t host_elements = 16 << 20, device_elements = 256 << 20;
  const std::int64_t elements = device.is_cpu() ? host_elements : device_elements;
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(device);
  const at::Tensor a = at::ones({elements}, options), b = at::ones({elements}, options);
  at::Tensor sum = at::zeros({elements}, options);
  std::vector<double> rates;
  for (int i = 0; i < 5; ++i) {
    device::synchronize(device);
    const Stopwatch watch;
    at::add_out(sum, a, b);
    device::synchronize(device);
    rates.push_back(static_cast<double>(3 * sum.nbytes()) / watch.seconds());
  }
  return median_of(std::move(rates));
}

}  // namespace accrue::train
