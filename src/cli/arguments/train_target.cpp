#include "cli/arguments/train_target.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "cli/output/shell_words.h"
#include "core/words.h"
#include "data/files/suffix.h"
#include "train/config/toml/toml_reader.h"
#include "train/config/toml/value.h"
#include "train/workload/first/data_facts.h"

namespace accrue::cli {
namespace {

/// Suffixes of configs, also of those in other formats, for which the parser reports an error.
constexpr std::array<std::string_view, 8> suffixes_of_configs{".toml", ".tml",  ".conf", ".cfg",
                                                              ".ini",  ".yaml", ".yml",  ".json"};

bool has_suffix_of_config(const std::filesystem::path& file) {
  return std::ranges::find(suffixes_of_configs, data::suffix_of(file)) != suffixes_of_configs.end();
}

/// Whether a word alone is a pattern of data files that the shell did not expand.
bool is_pattern(const std::string& word) {
  std::error_code unreadable;
  return word.find_first_of("*?[") != std::string::npos && !has_suffix_of_config(word) &&
         !std::filesystem::exists(word, unreadable);
}

/// Whether a word alone names data. A file without a suffix may be a config.
bool is_data(const std::string& word) {
  std::error_code unreadable;
  if (is_pattern(word)) return true;
  return std::filesystem::is_regular_file(word, unreadable) && !data::suffix_of(word).empty() &&
         !has_suffix_of_config(word);
}

bool is_run(const train::RunDirectory& run) {
  std::error_code unreadable;
  return std::filesystem::is_regular_file(run.run_file(), unreadable) &&
         std::filesystem::is_regular_file(run.config_file(), unreadable);
}

std::string override_of(const std::string& key, const train::Value& value) {
  return key + "=" + train::to_toml(value);
}

/// Throws for a folder that holds no run. One that lost its run.json still has a config to name.
void expect_no_folder_without_run(const train::RunDirectory& run) {
  std::error_code unreadable;
  const std::string folder = run.root().string();
  if (!std::filesystem::is_directory(run.root(), unreadable) ||
      std::filesystem::exists(run.config_file(), unreadable))
    return;
  throw usage_error("accrue train " + folder + " --resume", "a run folder",
                    "a folder without a run",
                    "accrue runs " + shell_word(folder) + ", which lists the runs below it");
}

TrainTarget run_to_resume(TrainTarget target, const train::RunDirectory& run) {
  if (!train::overrides_state(target.overrides, "run.out"))
    target.overrides.push_back(override_of("run.out", {target.config}));
  target.config = run.config_file().string();
  return target;
}

std::string override_of_files(const std::string& key, const std::vector<std::string>& files) {
  train::Value::Array list;
  for (const std::string& file : files) list.push_back({file});
  return override_of(key, {std::move(list)});
}

std::string command_with(const std::string& verb, const std::vector<std::string>& words) {
  std::string command = "accrue " + verb;
  for (const std::string& word : words) command += ' ' + shell_word(word);
  return command;
}

/// CONFIG and the words after it.
std::vector<std::string> words_of(const TrainTarget& target) {
  std::vector<std::string> words{target.config};
  words.insert(words.end(), target.more.begin(), target.more.end());
  return words;
}

/// The most words that a suggestion repeats.
constexpr std::size_t most_repeated = 8;

/// The error for a config among files of data.
Error config_beside_data(const std::string& config, const std::vector<std::string>& data) {
  const std::string command =
      data.size() <= most_repeated
          ? command_with("train", {config, "--" + override_of_files("data.train", data)})
          : "accrue train " + shell_word(config) +
                " '--data.train=[\"PATTERN\"]', whose quotes keep the pattern from the shell";
  return usage_error("accrue train", "a config file, or files of data", config + " beside data",
                     command);
}

/// The error for a folder among files of data. Many of them have one around them.
Error folder_beside_data(const std::string& folder, const std::vector<std::string>& words) {
  const std::string around = std::filesystem::path(folder).parent_path().string();
  const bool is_many = words.size() > most_repeated && !around.empty();
  return usage_error("accrue train", "files of data", "the folder " + folder,
                     command_with("init", is_many ? std::vector{around} : words) +
                         ", which writes a config for what is in it");
}

bool is_folder_of_data(const std::string& word) {
  std::error_code unreadable;
  return std::filesystem::is_directory(word, unreadable) &&
         !std::filesystem::exists(std::filesystem::path(word) / "config.json", unreadable);
}

/// Throws if several words are not all of data.
void expect_data_alone(const std::vector<std::string>& words) {
  std::vector<std::string> configs, data;
  for (const std::string& word : words) {
    if (is_run(train::RunDirectory(word)))
      throw usage_error("accrue train", "one run to resume, or files of data",
                        "the run " + word + " beside other words",
                        "accrue train FILES --model.from=" + shell_word(word) +
                            " to start from it, or accrue train " + shell_word(word) + " --resume");
    (has_suffix_of_config(word) ? configs : data).push_back(word);
  }
  if (configs.size() > 1)
    throw usage_error("accrue train", "one config file", first_few(configs, 3),
                      command_with("train", {configs.front()}));
  if (!configs.empty()) throw config_beside_data(configs.front(), data);
  const auto folder = std::ranges::find_if(data, is_folder_of_data);
  if (folder != data.end()) throw folder_beside_data(*folder, data);
}

/// The files by their names, as init sorts them; patterns are trained on.
train::FirstFiles sorted(const std::vector<std::string>& words) {
  std::vector<std::string> patterns, names;
  for (const std::string& word : words) (is_pattern(word) ? patterns : names).push_back(word);
  train::FirstFiles files;
  if (!names.empty()) files = train::sort_out(names, "accrue train");
  files.train.insert(files.train.end(), patterns.begin(), patterns.end());
  return files;
}

TrainTarget data_to_train_on(TrainTarget target) {
  if (train::overrides_state(target.overrides, "data.train"))
    throw usage_error("accrue train " + target.config, "a config file beside --data.train",
                      target.more.empty() ? "a file of data" : "files of data",
                      "--data.train with all files of data");
  train::FirstFiles files = sorted(words_of(target));
  const bool states_held_out = train::overrides_state(target.overrides, "data.val") ||
                               train::overrides_state(target.overrides, "data.val_fraction");
  if (states_held_out) {
    files.train.insert(files.train.end(), files.val.begin(), files.val.end());
    files.val.clear();
  }
  if (!files.model.empty() && train::overrides_state(target.overrides, "model.from"))
    throw usage_error("accrue train", "at most one model",
                      files.model + " and that of --model.from", "one of them");
  target.overrides.push_back(override_of_files("data.train", files.train));
  if (!files.val.empty()) target.overrides.push_back(override_of_files("data.val", files.val));
  if (!files.model.empty()) target.overrides.push_back(override_of("model.from", {files.model}));
  target.config.clear();
  target.more.clear();
  return target;
}

}  // namespace

TrainTarget resolved(TrainTarget target, bool resumes) {
  if (target.config.empty()) return target;
  if (!target.more.empty()) {
    expect_data_alone(words_of(target));
    return data_to_train_on(std::move(target));
  }
  const train::RunDirectory run(target.config);
  if (resumes) expect_no_folder_without_run(run);
  if (!is_run(run)) return is_data(target.config) ? data_to_train_on(std::move(target)) : target;
  if (resumes) return run_to_resume(std::move(target), run);
  throw usage_error("accrue train " + target.config, "a config file, or a run to resume",
                    "a run without --resume",
                    "accrue train " + target.config + " --resume to continue it, or --repeat " +
                        target.config + " --run.out=NEW to train it again");
}

}  // namespace accrue::cli
