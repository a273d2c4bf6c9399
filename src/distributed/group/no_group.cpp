#include "accrue/core/error.h"
#include "accrue/distributed/group.h"

namespace accrue::distributed {

bool has_process_groups() { return false; }

bool has_nccl() { return false; }

std::shared_ptr<Group> connect(const Launch& launch, const GroupOptions&) {
  throw usage_error("connect to the other ranks", "a build with process groups (Gloo)",
                    "one without, for " + std::to_string(launch.world) + " ranks",
                    "building with libgloo-dev against a libtorch that has c10d, or one process");
}

}  // namespace accrue::distributed
