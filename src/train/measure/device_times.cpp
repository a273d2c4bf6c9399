#include "train/measure/device_times.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "accrue/device/device.h"

namespace accrue::train {

std::vector<KernelTime> device_times(c10::Device device, const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU, ActivityType::CUDA};
  device::synchronize(device);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  device::synchronize(device);
  const auto result = profiler::disableProfiler();
  std::map<std::string, KernelTime> by_name;
  for (const auto& event : result->events()) {
    if (event.deviceType() != device.type()) continue;
    KernelTime& time = by_name[event.name()];
    time.kernel = event.name();
    ++time.calls;
    time.seconds += static_cast<double>(event.durationNs()) / 1e9;
  }
  std::vector<KernelTime> times;
  for (const auto& [name, time] : by_name) times.push_back(time);
  std::ranges::stable_sort(times, std::greater<>(), &KernelTime::seconds);
  return times;
}

}  // namespace accrue::train
