#include "cli/train_target.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "data/files/suffix.h"
#include "train/config/toml/toml_reader.h"
#include "train/config/toml/value.h"

namespace accrue::cli {
namespace {

/// Suffixes of configs, also of those in other formats, for which the parser reports an error.
constexpr std::array<std::string_view, 9> suffixes_of_configs{
    "", ".toml", ".tml", ".conf", ".cfg", ".ini", ".yaml", ".yml", ".json"};

bool is_data_file(const std::filesystem::path& file) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) return false;
  return std::ranges::find(suffixes_of_configs, data::suffix_of(file)) == suffixes_of_configs.end();
}

bool is_run(const train::RunDirectory& run) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(run.run_file(), unreadable) &&
         std::filesystem::is_regular_file(run.config_file(), unreadable);
}

std::string override_of(const std::string& key, const train::Value& value) {
  return key + "=" + train::to_toml(value);
}

TrainTarget run_to_resume(TrainTarget target, const train::RunDirectory& run) {
  if (!train::overrides_state(target.overrides, "run.out"))
    target.overrides.push_back(override_of("run.out", {target.config}));
  target.config = run.config_file().string();
  return target;
}

TrainTarget data_to_train_on(TrainTarget target) {
  if (train::overrides_state(target.overrides, "data.train"))
    throw usage_error("accrue train " + target.config, "a config file beside --data.train",
                      "a file of data", "--data.train with all files of data");
  target.overrides.push_back(
      override_of("data.train", {train::Value::Array{{std::exchange(target.config, "")}}}));
  return target;
}

}  // namespace

TrainTarget resolved(TrainTarget target, bool resumes) {
  if (target.config.empty()) return target;
  const train::RunDirectory run(target.config);
  if (!is_run(run))
    return is_data_file(target.config) ? data_to_train_on(std::move(target)) : target;
  if (resumes) return run_to_resume(std::move(target), run);
  throw usage_error("accrue train " + target.config, "a config file, or a run to resume",
                    "a run without --resume",
                    "accrue train " + target.config + " --resume to continue it, or --repeat " +
                        target.config + " --run.out=NEW to train it again");
}

}  // namespace accrue::cli
