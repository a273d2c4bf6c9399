#include "train/watch/machine_ceiling.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "accrue/core/clock.h"
#include "core/atomic_file.h"
#include "core/machine.h"
#include "kernels/gemm/gemm.h"
#include "train/watch/gemm_rate.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kRate = "flops_per_second";

json to_json(const CeilingKey& key) {
  return {{"processor", key.processor},
          {"isa", key.isa},
          {"precision", key.precision},
          {"kernels", key.kernels},
          {"threads", key.threads}};
}

/// The file's entries; none if it has another format, or cannot be read.
json entries_of(const fs::path& file) {
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return json::array();
  try {
    const json content = json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
    const bool is_ours = content.is_object() && content.contains("ceilings");
    if (is_ours && content["ceilings"].is_array()) return content["ceilings"];
  } catch (const std::exception&) {
    // It is gone or may not be read: treated as missing.
  }
  return json::array();
}

bool is_of(const json& entry, const CeilingKey& key) {
  if (!entry.is_object()) return false;
  json rest = entry;
  rest.erase(kRate);
  return rest == to_json(key);
}

std::optional<double> rate_of(const json& entry) {
  const auto rate = entry.find(kRate);
  if (rate == entry.end() || !rate->is_number()) return std::nullopt;
  const auto value = rate->get<double>();
  return std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

fs::path folder_from_environment(const char* name) {
  const char* const value = std::getenv(name);
  const fs::path folder = value == nullptr ? "" : value;
  return folder.is_absolute() ? folder : fs::path();
}

GemmShape cube(std::int64_t side) { return {.m = side, .n = side, .k = side}; }

}  // namespace

CeilingKey ceiling_key(models::Compute compute) {
  return {.processor = processor_name(),
          .isa = at::get_cpu_capability(),
          .precision = std::string(models::to_string(compute)),
          .kernels = kernels::gemm_backend(),
          .threads = at::get_num_threads()};
}

std::optional<double> CeilingCache::find(const CeilingKey& key) const {
  for (const json& entry : entries_of(file_))
    if (is_of(entry, key)) return rate_of(entry);
  return std::nullopt;
}

bool CeilingCache::keep(const CeilingKey& key, double flops_per_second) const {
  if (file_.empty()) return false;
  json kept = json::array();
  for (const json& entry : entries_of(file_))
    if (!is_of(entry, key)) kept.push_back(entry);
  json added = to_json(key);
  added[kRate] = flops_per_second;
  kept.push_back(std::move(added));
  const json content{{"ceilings", std::move(kept)}};
  try {
    fs::create_directories(file_.parent_path());
    write_file_atomically(file_,
                          content.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

fs::path ceiling_cache_file() {
  constexpr const char* kFile = "accrue/ceilings.json";
  if (const fs::path caches = folder_from_environment("XDG_CACHE_HOME"); !caches.empty())
    return caches / kFile;
  const fs::path home = folder_from_environment("HOME");
  return home.empty() ? fs::path() : home / ".cache" / kFile;
}

std::optional<double> measure_ceiling(models::Compute compute, double most_seconds,
                                      std::int64_t most_bytes) {
  constexpr std::int64_t smallest = 256, least = 512;
  constexpr double work_of_twice_the_side = 8;
  std::optional<double> best;
  const Stopwatch all;
  double next_seconds = 0;
  for (std::int64_t side = smallest; side <= peak_shape.m; side *= 2) {
    const bool is_too_long = side > least && all.seconds() + next_seconds > most_seconds;
    if (is_too_long || bytes_of_measurement(cube(side), compute) > most_bytes) return best;
    const Stopwatch one;
    const double rate = measure_gemm_rate({cube(side)}, compute);
    next_seconds = work_of_twice_the_side * one.seconds();
    if (side >= least) best = std::max(best.value_or(0), rate);
  }
  return best;
}

}  // namespace accrue::train
