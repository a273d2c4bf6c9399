#include "train/ranks/meeting.h"

#include <chrono>

#include "accrue/core/error.h"
#include "train/ranks/rank_conflicts.h"
#include "train/workload/placement.h"

namespace accrue::train {
namespace {

distributed::DeviceEngine device_engine_of(const Config& config) {
  using distributed::DeviceEngine;
  if (config.dist.backend == Backend::gloo) return DeviceEngine::gloo;
  if (distributed::has_nccl()) return DeviceEngine::nccl;
  if (!config.dist.backend) return DeviceEngine::gloo;
  throw usage_error("dist.backend = \"nccl\"", "a build with NCCL", "one without",
                    "a build where NCCL's and CUDA's headers are (docs/guide/distributed.md), or "
                    "backend = \"auto\"");
}

}  // namespace

distributed::GroupOptions group_options(const Config& config) {
  const std::chrono::duration<double> timeout(config.dist.timeout.value);
  return {.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout),
          .device_engine = device_engine_of(config),
          .least = can_lose_ranks(config) && is_for_cpu(config) ? config.dist.min_ranks : 0};
}

}  // namespace accrue::train
