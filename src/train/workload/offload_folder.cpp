#include "train/workload/offload_folder.h"

#include <system_error>

#include "accrue/core/error.h"
#include "accrue/core/units.h"

namespace accrue::train {

namespace fs = std::filesystem;

fs::path offload_folder(const Config& config) {
  if (!config.memory.offloads()) return {};
  const fs::path folder = config.memory.offload;
  std::error_code unreadable;
  const fs::file_status found = fs::status(folder, unreadable);
  if (fs::is_directory(found)) return folder;
  const bool is_file = fs::exists(found);
  throw usage_error(
      "memory.offload", "an existing folder on a disk with room for the state",
      folder.string() + (is_file ? ", which is not a folder" : ", which is not there"),
      is_file ? "another folder" : "mkdir -p " + folder.string());
}

std::optional<std::int64_t> offload_budget(const Config& config) {
  if (!config.memory.has_offload_budget()) return std::nullopt;
  return parse_bytes(config.memory.offload_budget, "memory.offload_budget").count;
}

}  // namespace accrue::train
