#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "distributed/nccl/nccl_library.h"

namespace accrue::distributed {
namespace {

/// c10d would end the process if a collective took too long. The group notices that itself, and
/// names the rank that is missing.
void leave_errors_to_the_group() {
  setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", /*overwrite=*/0);
  setenv("TORCH_NCCL_ENABLE_MONITORING", "0", /*overwrite=*/0);
}

}  // namespace
}  // namespace accrue::distributed

extern "C" __attribute__((visibility("default"))) void accrue_make_nccl_engine(
    const accrue::distributed::NcclRequest& request, accrue::distributed::NcclEngine& made) {
  accrue::distributed::leave_errors_to_the_group();
  auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
  options->timeout = request.timeout;
  made = c10::make_intrusive<c10d::ProcessGroupNCCL>(request.store, request.rank, request.world,
                                                     options);
}
