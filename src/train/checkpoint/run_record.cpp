#include "train/checkpoint/run_record.h"

#include <algorithm>
#include <filesystem>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/json_checksum.h"
#include "observe/history/run_facts.h"
#include "train/checkpoint/module_digest.h"
#include "train/config/config_json.h"
#include "train/config/toml/toml_reader.h"

namespace accrue::train {
namespace {

using nlohmann::json;

constexpr std::int64_t most_samples = 1'000'000'000;  // as in batch.samples
constexpr std::int64_t most_threads = 4096;           // as in run.threads

std::vector<data::DataFile> files_in(const json& list) {
  std::vector<data::DataFile> files;
  for (const json& entry : list)
    files.push_back({.path = entry.at("path").get<std::string>(),
                     .files = entry.value("files", std::int64_t{1}),
                     .bytes = entry.at("bytes").get<std::int64_t>(),
                     .fingerprint = entry.at("fingerprint").get<std::string>()});
  return files;
}

RunData data_in(const json& data) {
  return {.train = files_in(data.at("train")), .val = files_in(data.at("val"))};
}

/// An integer of this range. Throws a json::exception if it is something else.
std::int64_t integer_in(const json& object, const char* name, std::int64_t most) {
  const json& value = object.at(name);
  if (value.is_number_integer() && value >= 1 && value <= most) return value.get<std::int64_t>();
  throw json::other_error::create(
      500, std::string(name) + " is no number from 1 to " + std::to_string(most), &object);
}

std::vector<RankRecord> ranks_in(const json& plan) {
  std::vector<RankRecord> ranks;
  for (const json& rank : plan.at("ranks"))
    ranks.push_back({.micro_batch = integer_in(rank, "micro_batch", most_samples),
                     .recompute = parse_recompute(rank.at("recompute").get<std::string>(),
                                                  "plan.ranks.recompute")});
  return ranks;
}

std::vector<ConfigDifference> changes_in(const json& list) {
  std::vector<ConfigDifference> changes;
  for (const json& entry : list)
    changes.push_back({.key = entry.at("key").get<std::string>(),
                       .before = entry.at("before").get<std::string>(),
                       .after = entry.at("after").get<std::string>()});
  return changes;
}

std::vector<PastResumption> resumptions_in(const json& list) {
  std::vector<PastResumption> resumed;
  for (const json& entry : list)
    resumed.push_back({.step = entry.at("step").get<std::int64_t>(),
                       .changes = changes_in(entry.at("changes")),
                       .environment = environment_from_json(entry),
                       .data_changed = entry.at("data_changed").get<bool>()});
  return resumed;
}

/// A run without one is of a version that had the first schedule.
optim::ScheduleVersion schedule_in(const json& run) {
  using enum optim::ScheduleVersion;
  if (!run.contains("schedule")) return min_in_last_step;
  return static_cast<optim::ScheduleVersion>(
      integer_in(run, "schedule", static_cast<int>(min_after_last_step)));
}

std::vector<BatchChange> batch_changes_in(const json& run) {
  if (!run.contains("batch_changes")) return {};
  return batch_changes_from_json(run.at("batch_changes"));
}

RunRecord record_in(const json& run, const std::string& folder) {
  RunRecord record{.folder = folder,
                   .config = run.at("config"),
                   .environment = environment_from_json(run),
                   .data = data_in(run.at("data")),
                   .ranks = ranks_in(run.at("plan")),
                   .plan_reason = run.at("plan").at("reason").get<std::string>(),
                   .start = run.at("start").get<std::string>(),
                   .module = run.value("module", std::string()),
                   .resumed = resumptions_in(run.at("resumed"))};
  integer_in(run.at("machine"), "threads", most_threads);
  if (run.at("plan").contains("accelerate"))
    record.accelerate = run.at("plan").at("accelerate").get<bool>();
  record.schedule = schedule_in(run);
  record.batch_changes = batch_changes_in(run);
  if (record.ranks.empty()) throw json::other_error::create(500, "plan.ranks is empty", &run);
  return record;
}

bool has_run_json(const RunDirectory& run) {
  std::error_code unreadable;
  return std::filesystem::exists(run.run_file(), unreadable);
}

/// The object in run.json. Throws a usage Error with this hint if it is damaged.
json whole_run_json(const RunDirectory& run, const std::string& operation,
                    const std::string& instead) {
  json parsed = observe::parse_json(read_file(run.run_file()));
  if (parsed.is_object() && has_its_checksum(parsed)) return parsed;
  throw usage_error(operation, "run.json as it was written",
                    parsed.is_object() ? "one that changed since (damaged: its checksum is another)"
                                       : "none that can be read (damaged)",
                    instead);
}

/// The "step" of an entry of run.json; 0 if it has none.
std::int64_t step_in(const json& entry) {
  if (!entry.is_object()) return 0;
  const auto step = entry.find("step");
  return step != entry.end() && step->is_number_integer() ? step->get<std::int64_t>() : 0;
}

json run_json_to_repeat(const RunDirectory& run, const std::string& operation) {
  if (!has_run_json(run))
    throw usage_error(operation, "a run folder", "one without a run.json",
                      "the folder that was the run's run.out");
  return whole_run_json(run, operation,
                        "accrue train " + run.config_file().string() + " --run.out=NEW");
}

}  // namespace

std::shared_ptr<const RunRecord> read_run_record(const RunDirectory& run) {
  const std::string folder = run.root().string(), operation = "repeat " + folder;
  const json parsed = run_json_to_repeat(run, operation);
  try {
    return std::make_shared<const RunRecord>(record_in(parsed, folder));
  } catch (const json::exception& missing) {
    throw usage_error(
        operation, "a run.json with config, plan, data, environment and start of the run",
        "one of an earlier version, or damaged (" + std::string(missing.what()) + ")",
        "accrue train " + run.config_file().string() + " --run.out=NEW, which plans again");
  }
}

json recorded(const RunDirectory& run) {
  if (!has_run_json(run)) return json::object();
  return whole_run_json(
      run, "read " + run.run_file().string(),
      "run.json of a copy of the run; or removing it: the run then goes on without it, and cannot "
      "be repeated");
}

std::int64_t last_recorded_step(const RunDirectory& run) {
  const json record = recorded(run);
  std::int64_t last = step_in(record.value("ended", json()));
  for (const json& resumption : record.value("resumed", json::array()))
    last = std::max(last, step_in(resumption));
  return last;
}

std::map<std::string, std::string> recorded_tokenizer(const RunDirectory& run) {
  std::map<std::string, std::string> digests;
  const json tokenizer = recorded(run).value("tokenizer", json());
  for (const auto& [name, digest] : tokenizer.items())
    if (digest.is_string()) digests[name] = digest.get<std::string>();
  return digests;
}

optim::ScheduleVersion recorded_schedule(const RunDirectory& run) {
  try {
    return schedule_in(recorded(run));
  } catch (const json::exception& unknown) {
    throw usage_error("resume " + run.root().string(), "a run.json with a schedule that is known",
                      unknown.what(), "the version of accrue that began the run");
  }
}

std::vector<BatchChange> recorded_batch_changes(const RunDirectory& run) {
  try {
    return batch_changes_in(recorded(run));
  } catch (const json::exception& unknown) {
    throw usage_error("resume " + run.root().string(),
                      "a run.json whose batch_changes have a window and a size each",
                      unknown.what(), "run.json of a copy of the run");
  }
}

void expect_module_to_repeat(const RunRecord& record, const Config& config,
                             const std::vector<std::string>& overrides) {
  if (overrides_state(overrides, "model.from")) return;
  expect_recorded_module(config, record.module, "repeat " + record.folder);
}

Config config_to_repeat(const RunRecord& record, const std::vector<std::string>& overrides) {
  Config config = config_from_json(record.config, record.folder + "/run.json", overrides);
  if (!overrides_state(overrides, "run.replica")) config.run.replica.clear();
  // They belong to another machine, and may be commands that the user here has not chosen.
  if (!overrides_state(overrides, "run.limits")) config.run.limits.clear();
  config.optim.schedule.version = record.schedule;
  const bool states_threads = overrides_state(overrides, "run.threads");
  if (config.run.threads == 0 && !states_threads) config.run.threads = record.environment.threads;
  return config;
}

}  // namespace accrue::train
