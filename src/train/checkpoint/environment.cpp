#include "train/checkpoint/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "accrue/version.h"
#include "core/loaded_libraries.h"
#include "core/machine.h"
#include "core/working_copy.h"
#include "kernels/gemm/gemm.h"

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

nlohmann::json to_json(const RunEnvironment& environment) {
  nlohmann::json run{{"versions", environment.versions},
                     {"machine",
                      {{"host", environment.host},
                       {"processor", environment.processor},
                       {"isa", environment.isa},
                       {"threads", environment.threads}}},
                     {"ranks", environment.ranks},
                     {"libraries", environment.libraries},
                     {"working_directory", environment.working_directory}};
  if (environment.commit) run["commit"] = *environment.commit;
  return run;
}

RunEnvironment environment_from_json(const nlohmann::json& run) {
  const nlohmann::json& machine = run.at("machine");
  RunEnvironment environment{
      .versions = run.at("versions").get<std::map<std::string, std::string>>(),
      .host = machine.at("host").get<std::string>(),
      .processor = machine.at("processor").get<std::string>(),
      .isa = machine.at("isa").get<std::string>(),
      .threads = machine.at("threads").get<std::int64_t>(),
      .ranks = run.at("ranks").get<std::int64_t>(),
      .libraries = run.at("libraries").get<std::map<std::string, std::string>>(),
      .working_directory = run.at("working_directory").get<std::string>()};
  if (run.contains("commit")) environment.commit = run.at("commit").get<std::string>();
  return environment;
}

}  // namespace accrue::train
