#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>
#include <unistd.h>

#include <filesystem>

#include "accrue/version.h"
#include "core/loaded_libraries.h"
#include "core/machine.h"
#include "core/working_copy.h"
#include "kernels/gemm/gemm.h"
#include "train/checkpoint/environment.h"

namespace accrue::train {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

RunEnvironment present_environment(std::int64_t ranks) {
  std::error_code deleted;
  const std::filesystem::path here = std::filesystem::current_path(deleted);
  return {.versions = {{"accrue", version},
                       {"libtorch", TORCH_VERSION},
                       {"gemm", kernels::gemm_backend()}},
          .host = host_name(),
          .processor = processor_name(),
          .isa = at::get_cpu_capability(),
          .threads = at::get_num_threads(),
          .ranks = ranks,
          .libraries = loaded_libraries(),
          .working_directory = here.string(),
          .commit = commit_of(here)};
}

}  // namespace accrue::train
