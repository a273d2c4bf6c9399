#include "train/run/run_notes.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/shard_scope.h"
#include "core/atomic_file.h"
#include "core/words.h"
#include "train/checkpoint/run_info.h"
#include "train/checkpoint/run_record.h"
#include "train/config/data_paths.h"
#include "train/plan/plan_json.h"
#include "train/workload/batch_changes.h"
#include "train/workload/model_digest.h"

namespace accrue::train {
namespace {

/// Samples held out as a fraction are in the training files.
RunData data_of(const RunNotes& notes) {
  const Datasets& sets = notes.work.data;
  const bool own_files = sets.val && notes.given.data.val_fraction == 0;
  return {.train = sets.train->files(),
          .val = own_files ? sets.val->files() : std::vector<data::DataFile>{}};
}

/// The digest of the initial parameters; empty if no rank has all of them.
std::string digest_of_start(const RunNotes& notes) {
  const bool is_divided = std::ranges::any_of(
      notes.work.model->parameters(),
      [](const NamedParameter& parameter) { return memory::is_kept_in_part(parameter.tensor); });
  return is_divided ? "" : digest_of(*notes.work.model);
}

/// The text of run.json. Throws a usage Error if it is damaged: written again with a new checksum
/// it would pass for intact.
std::string run_json_of(const RunDirectory& run) { return recorded(run).dump(); }

}  // namespace

OriginalRun repeat(std::shared_ptr<const RunRecord> record, const RunNotes& now, bool accept_data) {
  const RunData data = data_of(now);
  const std::string start = digest_of_start(now);
  Repetition repetition =
      compare_with(*record, {now.given, now.environment, data, start}, accept_data);
  return {std::move(record), std::move(repetition)};
}

std::vector<std::string> in_words(const OriginalRun& repeated) {
  const Repetition& repetition = repeated.repetition;
  std::vector<std::string> sentences{
      repeated.record->folder + " is repeated from its beginning, by " +
      (repetition.keeps_plan ? "the plan that it had"
                             : "a plan of its own, as what that is made "
                               "from is stated otherwise")};
  for (const auto* list : {&repetition.history, &repetition.differences})
    sentences.insert(sentences.end(), list->begin(), list->end());
  sentences.push_back(repetition.bits);
  return sentences;
}

void expect_data_of_start(const RunDirectory& run, const RunNotes& now, const Config& started,
                          bool accept_data) {
  if (accept_data || moves_in_words(started, now.given).empty()) return;
  const std::vector<std::string> changes = changed_files(read_run_record(run)->data, data_of(now));
  if (changes.empty()) return;
  throw usage_error("resume " + run.root().string(), "the data that the run began with",
                    "other data: " + listed(changes, "and"),
                    "the same files, in any folder; or --accept-data");
}

std::string note_start(const RunNotes& notes, const RunPlan& plan,
                       const std::vector<RankRecord>& records,
                       const std::optional<OriginalRun>& repeated, const KeptTokenizer& tokenizer) {
  nlohmann::json planned = to_json(plan, records);
  if (const auto budget = memory::budget()) planned["budget_bytes"] = *budget;
  return describe_run(
      {.config = notes.given,
       .command = notes.command,
       .environment = notes.environment,
       .data = data_of(notes),
       .plan = planned,
       .total_steps = plan.total_steps,
       .parameters = plan.parameters,
       .counts_tokens = plan.batch_tokens > 0,
       .start = digest_of_start(notes),
       .module = digest_of_module(*notes.work.model),
       .tokenizer = tokenizer.digests(),
       .repeats = repeated ? repeated->record->folder : "",
       .differences = repeated ? repeated->repetition.differences : std::vector<std::string>{},
       .batch_changes =
           repeated ? repeated->repetition.batch_changes : std::vector<BatchChange>{}});
}

void note_resumption(const RunDirectory& run, const RunNotes& notes, const Resumed& resumed,
                     const Config& started) {
  std::vector<ConfigDifference> changes = differences(started, notes.given);
  if (resumed.batch_change) changes.push_back(*resumed.batch_change);
  const bool is_by_hand = !batch_changes(notes.work.config);
  write_file_atomically(
      run.run_file(),
      add_resumption(run_json_of(run), {.step = resumed.state.step,
                                        .command = notes.command,
                                        .config = run.config(),
                                        .changes = std::move(changes),
                                        .environment = notes.environment,
                                        .data = data_of(notes),
                                        .data_changed = !resumed.data_change.empty(),
                                        .module = resumed.module,
                                        .schedule = resumed.state.schedule,
                                        .batch_changes = is_by_hand ? resumed.state.adapt.changes
                                                                    : std::vector<BatchChange>{}}));
}

std::string note_end(const RunDirectory& run, const RunResult& result) {
  try {
    write_file_atomically(run.run_file(),
                          add_end(run_json_of(run), result.step, result.interrupted));
    return {};
  } catch (const std::exception& error) {
    return std::string("run.json does not say that the run has ended: ") + error.what();
  }
}

}  // namespace accrue::train
