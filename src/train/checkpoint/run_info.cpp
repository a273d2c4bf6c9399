#include "train/checkpoint/run_info.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "accrue/version.h"
#include "core/machine.h"
#include "kernels/gemm/gemm.h"

namespace accrue::train {

std::string now_iso() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string describe_run(const Config& config, const std::vector<std::string>& command) {
  nlohmann::json info;
  info["versions"] = {
      {"accrue", version}, {"libtorch", TORCH_VERSION}, {"gemm", kernels::gemm_backend()}};
  info["machine"] = {{"host", host_name()},
                     {"processor", processor_name()},
                     {"isa", at::get_cpu_capability()},
                     {"threads", at::get_num_threads()}};
  info["seed"] = config.run.seed;
  info["command"] = command;
  info["started"] = now_iso();
  info["resumed"] = nlohmann::json::array();
  return info.dump(2) + "\n";
}

std::string add_resumption(const std::string& run_json, std::int64_t step,
                           const std::vector<std::string>& command) {
  nlohmann::json info = nlohmann::json::parse(run_json, nullptr, false);
  if (!info.is_object()) info = nlohmann::json::object();
  info["resumed"].push_back({{"step", step}, {"time", now_iso()}, {"command", command}});
  return info.dump(2) + "\n";
}

}  // namespace accrue::train
