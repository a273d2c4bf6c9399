#include "train/checkpoint/run_info.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/json_checksum.h"
#include "observe/history/run_facts.h"
#include "train/config/config_json.h"

namespace accrue::train {
namespace {

using nlohmann::json;

/// The object in `run_json`; an empty one if there is none, as after a killed process or a manual
/// edit.
json run_in(const std::string& run_json) {
  json run = observe::parse_json(run_json);
  return run.is_object() ? std::move(run) : json::object();
}

/// The steps that a run was resumed from, in the order of its resumptions.
std::vector<std::int64_t> resumed_steps(const std::string& run_json) {
  const json list = run_in(run_json).value("resumed", json());
  std::vector<std::int64_t> steps;
  if (!list.is_array()) return steps;
  for (const json& entry : list)
    if (entry.is_object() && entry.value("step", json()).is_number_integer())
      steps.push_back(entry["step"].get<std::int64_t>());
  return steps;
}

json to_json(const std::vector<data::DataFile>& files) {
  json list = json::array();
  for (const data::DataFile& file : files) {
    json entry{
        {"path", file.path.string()}, {"bytes", file.bytes}, {"fingerprint", file.fingerprint}};
    if (file.files != 1) entry["files"] = file.files;
    list.push_back(std::move(entry));
  }
  return list;
}

json to_json(const RunData& data) {
  return {{"train", to_json(data.train)}, {"val", to_json(data.val)}};
}

json to_json(const std::vector<ConfigDifference>& changes) {
  json list = json::array();
  for (const ConfigDifference& change : changes)
    list.push_back({{"key", change.key}, {"before", change.before}, {"after", change.after}});
  return list;
}

void note_batch_changes(const std::vector<BatchChange>& changes, json& run) {
  run.erase("batch_changes");
  if (!changes.empty()) run["batch_changes"] = batch_changes_to_json(changes);
}

}  // namespace

std::string now_iso() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string describe_run(const RunInfo& info) {
  json run = to_json(info.environment);
  run["seed"] = info.config.run.seed;
  run["command"] = info.command;
  run["started"] = now_iso();
  run["resumed"] = json::array();
  run["config"] = to_json(info.config);
  run["plan"] = info.plan;
  run["total_steps"] = info.total_steps;
  run["schedule"] = static_cast<int>(info.config.optim.schedule.version);
  run["parameters"] = info.parameters;
  run["unit"] = info.counts_tokens ? "tokens" : "samples";
  run["data"] = to_json(info.data);
  run["start"] = info.start;
  if (!info.module.empty()) run["module"] = info.module;
  if (!info.tokenizer.empty()) run["tokenizer"] = info.tokenizer;
  if (!info.repeats.empty())
    run["repeats"] = {{"run", info.repeats}, {"differences", info.differences}};
  note_batch_changes(info.batch_changes, run);
  return text_with_checksum(std::move(run));
}

std::string add_resumption(const std::string& run_json, const Resumption& resumption) {
  json run = run_in(run_json);
  json entry = to_json(resumption.environment);
  entry["step"] = resumption.step;
  entry["time"] = now_iso();
  entry["command"] = resumption.command;
  entry["changes"] = to_json(resumption.changes);
  entry["data_changed"] = resumption.data_changed;
  if (!run["resumed"].is_array()) run["resumed"] = json::array();
  run["resumed"].push_back(std::move(entry));
  run.erase("ended");
  run["schedule"] = static_cast<int>(resumption.schedule);
  if (!resumption.module.empty()) run["module"] = resumption.module;
  note_batch_changes(resumption.batch_changes, run);
  // A run of an earlier version stays one that has too little to be repeated.
  if (run.contains("config")) run["config"] = to_json(resumption.config);
  if (run.contains("data")) run["data"] = to_json(resumption.data);
  return text_with_checksum(std::move(run));
}

std::string add_end(const std::string& run_json, std::int64_t step, bool interrupted) {
  json run = run_in(run_json);
  run["ended"] = {
      {"time", now_iso()}, {"step", step}, {"state", interrupted ? "interrupted" : "done"}};
  if (!interrupted) run["total_steps"] = step;  // a batch that changed may have made it another
  return text_with_checksum(std::move(run));
}

bool is_run_json(const std::string& text) {
  json run = observe::parse_json(text);
  return run.is_object() && has_its_checksum(std::move(run));
}

bool are_of_one_run(const std::string& run_json, const std::string& other) {
  const json one = run_in(run_json), two = run_in(other);
  const std::array keys{"started", "start", "seed", "command", "working_directory"};
  return std::ranges::all_of(
      keys, [&](const char* key) { return one.value(key, json()) == two.value(key, json()); });
}

std::optional<std::int64_t> step_gone_back_to(const std::string& run_json,
                                              const std::string& before) {
  const std::vector<std::int64_t> now = resumed_steps(run_json), then = resumed_steps(before);
  if (now.size() <= then.size()) return std::nullopt;
  return *std::min_element(now.begin() + std::ssize(then), now.end());
}

}  // namespace accrue::train
