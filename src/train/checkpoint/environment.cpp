#include "train/checkpoint/environment.h"

#include <nlohmann/json.hpp>

namespace accrue::train {

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
