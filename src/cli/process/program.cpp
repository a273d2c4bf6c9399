#include "cli/process/program.h"

#include <utility>

namespace accrue::cli {

train::Config Program::load_config(const std::filesystem::path& file,
                                   const std::vector<std::string>& overrides) const {
  if (!brings_a_model()) return train::load_config(file, overrides);
  std::vector<std::string> all = overrides;
  all.emplace_back("model.kind=custom");
  return with_its_model(file.empty() ? train::parse_config("", "the command line", all)
                                     : train::load_config(file, all));
}

train::Config Program::with_its_model(train::Config config) const {
  return brings_a_model() ? train::with_custom(std::move(config), custom) : config;
}

Program program_of(const std::filesystem::path& path, train::Custom custom) {
  return {.name = path.filename().string(), .custom = std::move(custom)};
}

}  // namespace accrue::cli
