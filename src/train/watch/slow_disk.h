#pragma once

#include <optional>
#include <string>

#include "accrue/memory/offload.h"
#include "memory/disk_rates.h"

namespace accrue::train {

/// Finds a disk that moves offloaded state (memory.offload) at less than half the rate that was
/// measured before the first step: one that something else keeps busy, or a network's. Steps whose
/// transfers take less than a second are not judged, since the time to find a place counts there.
class SlowDisk {
 public:
  /// The rates measured in `folder`, in bytes a second; 0: not known, and not judged.
  SlowDisk(std::string folder, const memory::DiskRates& measured);

  /// Call it with the transfers of each step. Returns a remark, once in a run.
  std::optional<std::string> observe(const memory::Transfers& read,
                                     const memory::Transfers& written);

 private:
  std::string folder_;
  memory::DiskRates measured_;
  bool is_told_ = false;
};

}  // namespace accrue::train
