#include "train/checkpoint/repetition.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "accrue/core/error.h"
#include "core/words.h"
#include "train/config/batch_checks.h"
#include "train/config/data_paths.h"

namespace accrue::train {
namespace {

using Files = std::vector<data::DataFile>;

/// Something that has changed.
struct Difference {
  std::string what;  ///< for the list of what bits depend on; empty: they do not depend on it
  std::string text;
};

std::string then_and_now(const std::string& before, const std::string& now) {
  return (before.empty() ? "none" : before) + " then, " + (now.empty() ? "none" : now) + " now";
}

// --- files

std::string name_in_folder(const data::DataFile& file) { return file.path.filename().string(); }

using FilePointers = std::vector<const data::DataFile*>;

FilePointers pointers_to(const Files& files) {
  FilePointers pointers;
  for (const data::DataFile& file : files) pointers.push_back(&file);
  return pointers;
}

/// The present file for each former one, one to one.
struct Pairs {
  std::map<const data::DataFile*, const data::DataFile*> now_of;
  FilePointers before, now;  ///< those without a partner

  /// Pairs the remaining files for which `are_same` holds.
  template <class Same>
  void pair_off(Same are_same) {
    FilePointers rest;
    for (const data::DataFile* file : before) {
      const auto found = std::ranges::find_if(
          now, [&](const data::DataFile* other) { return are_same(*file, *other); });
      if (found == now.end()) {
        rest.push_back(file);
        continue;
      }
      now_of[file] = *found;
      now.erase(found);
    }
    before = std::move(rest);
  }
};

/// Data may have moved: a file that is not at its path is matched with one of the same name and
/// content, or with the only one of its name among the rest.
Pairs paired(const Files& before, const Files& now) {
  Pairs pairs{.now_of = {}, .before = pointers_to(before), .now = pointers_to(now)};
  const auto are_namesakes = [](const data::DataFile& a, const data::DataFile& b) {
    return name_in_folder(a) == name_in_folder(b);
  };
  pairs.pair_off([](const auto& a, const auto& b) { return a.path == b.path; });
  pairs.pair_off([&](const auto& a, const auto& b) {
    return are_namesakes(a, b) && a.fingerprint == b.fingerprint;
  });
  std::map<std::string, int> names;
  for (const FilePointers* side : {&pairs.before, &pairs.now})
    for (const data::DataFile* file : *side) ++names[name_in_folder(*file)];
  pairs.pair_off([&](const auto& a, const auto& b) {
    return are_namesakes(a, b) && names[name_in_folder(a)] == 2;
  });
  return pairs;
}

/// Whether files that are all paired are in the former order, in which their samples are counted.
bool come_in_order(const Files& before, const Files& now, const Pairs& pairs) {
  return std::ranges::equal(pointers_to(before), pointers_to(now), {},
                            [&](const auto* file) { return pairs.now_of.at(file); });
}

std::string bytes_in_words(std::int64_t bytes) { return digit_groups(bytes) + " bytes"; }

std::string change_of(const data::DataFile& before, const data::DataFile& now) {
  const std::string name = now.path.string();
  if (before.files != now.files)
    return name + ": " + then_and_now(counted(before.files, "file"), counted(now.files, "file"));
  if (before.bytes != now.bytes)
    return name + (before.bytes < now.bytes ? " grew from " : " shrank from ") +
           bytes_in_words(before.bytes) + " to " + bytes_in_words(now.bytes);
  if (before.fingerprint != now.fingerprint)
    return name + " has other content (" + bytes_in_words(now.bytes) + ", as before)";
  return {};
}

// --- the environment

void add_if_other(const std::string& what, const std::string& before, const std::string& now,
                  std::vector<Difference>& found) {
  if (before != now) found.push_back({what, what + " " + then_and_now(before, now)});
}

std::string value_in(const std::map<std::string, std::string>& map, const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? "" : found->second;
}

/// Names of the differences between the two, those first that both have.
std::vector<std::string> differing_names(const std::map<std::string, std::string>& before,
                                         const std::map<std::string, std::string>& now) {
  std::vector<std::string> names, of_one;
  for (const auto& [name, id] : before)
    if (!now.contains(name))
      of_one.push_back(name);
    else if (now.at(name) != id)
      names.push_back(name);
  for (const auto& [name, id] : now)
    if (!before.contains(name)) of_one.push_back(name);
  names.insert(names.end(), of_one.begin(), of_one.end());
  return names;
}

std::vector<Difference> environment_differences(const RunEnvironment& before,
                                                const RunEnvironment& now,
                                                bool bits_depend_on_ranks) {
  constexpr std::size_t libraries_named = 5;
  std::vector<Difference> found;
  for (const std::string& name : differing_names(before.versions, now.versions))
    add_if_other(name, value_in(before.versions, name), value_in(now.versions, name), found);
  add_if_other("processor", before.processor, now.processor, found);
  add_if_other("isa", before.isa, now.isa, found);
  add_if_other("threads", std::to_string(before.threads), std::to_string(now.threads), found);
  const std::vector<std::string> libraries = differing_names(before.libraries, now.libraries);
  if (!libraries.empty())
    found.push_back({"libraries", "other builds of the program or its libraries: " +
                                      first_few(libraries, libraries_named)});
  if (before.ranks != now.ranks)
    found.push_back({bits_depend_on_ranks ? "ranks" : "",
                     "ranks " +
                         then_and_now(std::to_string(before.ranks), std::to_string(now.ranks)) +
                         ": they share the same whole batch"});
  if (before.commit != now.commit)
    found.push_back({"", "commit of the working directory " +
                             then_and_now(before.commit.value_or(""), now.commit.value_or(""))});
  return found;
}

// --- the config

bool is_length(const std::string& key) {
  return key == "run.steps" || key == "run.tokens" || key == "run.epochs";
}

/// Keys that a plan is made from.
bool is_of_plan(const std::string& key) {
  constexpr std::array<std::string_view, 6> sections{"model.",     "data.",   "batch.",
                                                     "precision.", "memory.", "loss."};
  constexpr std::array<std::string_view, 4> keys{"optim.kind", "optim.state", "dist.shard",
                                                 "dist.stages"};
  return std::ranges::any_of(sections, [&](auto section) { return key.starts_with(section); }) ||
         std::ranges::find(keys, key) != keys.end();
}

/// The keys that a config states differently, without the folders, which always differ, and without
/// threads, which are reported with the environment.
std::vector<ConfigDifference> stated_otherwise(const Config& before, const Config& now) {
  std::vector<ConfigDifference> found = differences(before, now);
  std::erase_if(found, [](const ConfigDifference& difference) {
    return difference.key == "run.out" || difference.key == "run.replica" ||
           difference.key == "run.threads";
  });
  return found;
}

Difference difference_of(const ConfigDifference& stated) {
  const bool counts = is_length(stated.key) || !may_change_on_resume(stated.key);
  return {counts ? stated.key : "", in_words(stated)};
}

/// One on which bits do not depend: data are elsewhere (changed data are detected separately), or
/// the change is made again.
Difference without_effect(const ConfigDifference& stated) { return {"", in_words(stated)}; }

// --- what was resumed

/// How the run that is repeated went if it was resumed. A run from beginning to end repeats none of
/// the changes at that time, except its batch.
std::vector<Difference> history_of(const RunRecord& record, bool bits_depend_on_ranks) {
  std::vector<Difference> found;
  for (const PastResumption& past : record.resumed) {
    std::vector<std::string> texts;
    bool counts = past.data_changed;
    for (const ConfigDifference& change : past.changes) {
      // A batch that was changed by hand is so again (Repetition::batch_changes).
      const bool is_repeated = names_data_files(change.key) || is_batch_size(change.key);
      const Difference difference = is_repeated ? without_effect(change) : difference_of(change);
      texts.push_back(difference.text);
      counts = counts || !difference.what.empty();
    }
    for (const Difference& difference :
         environment_differences(record.environment, past.environment, bits_depend_on_ranks)) {
      texts.push_back(difference.text);
      counts = counts || !difference.what.empty();
    }
    if (past.data_changed) texts.emplace_back("other data");
    const std::string when = "the run was resumed after step " + std::to_string(past.step);
    found.push_back({counts ? "what changed when it was resumed" : "",
                     texts.empty() ? when : when + ": " + listed(texts, "and")});
  }
  return found;
}

std::vector<std::string> texts_of(const std::vector<Difference>& differences) {
  std::vector<std::string> texts;
  for (const Difference& difference : differences) texts.push_back(difference.text);
  return texts;
}

std::string bits_in_words(const Config& config, const std::vector<Difference>& differences) {
  std::vector<std::string> reasons;
  for (const Difference& difference : differences)
    if (!difference.what.empty() && std::ranges::find(reasons, difference.what) == reasons.end())
      reasons.push_back(difference.what);
  const std::string others = listed(reasons, "and");
  if (config.precision.accumulate != accum::Accumulation::fixed)
    return "the same bits are not promised: precision.accumulate = " +
           in_quotes(to_string(config.precision.accumulate)) +
           ", and only \"fixed\" promises them" +
           (reasons.empty() ? "" : "; what differs besides: " + others);
  if (reasons.empty())
    return "the same bits are to be expected: precision.accumulate = \"fixed\", and nothing that "
           "they depend on differs";
  return "the same bits are not to be expected, because of: " + others;
}

bool have_same_batch(const Config& before, const Config& now) {
  return batch_may_change(now) && before.batch.tokens == now.batch.tokens &&
         before.batch.samples == now.batch.samples;
}

/// Throws if data changed that the config names as it did.
void check_data(const RunRecord& record, const std::vector<std::string>& changes,
                const std::vector<ConfigDifference>& stated, bool accept) {
  constexpr std::size_t files_named = 10;
  const bool other_files = std::ranges::any_of(stated, [](const ConfigDifference& difference) {
    return difference.key.starts_with("data.");
  });
  if (changes.empty() || accept || other_files) return;
  const std::string moved = record.environment.working_directory;
  throw usage_error("repeat " + record.folder, "the data that it was trained on",
                    "other data: " + first_few(changes, files_named),
                    "the same files (the run was started in " + moved +
                        "), or --accept-data, which takes them as they are");
}

}  // namespace

std::vector<std::string> changed_files(const Files& before, const Files& now) {
  std::vector<std::string> changes;
  if (before == now) return changes;
  const Pairs pairs = paired(before, now);
  for (const data::DataFile& file : before)
    if (const auto found = pairs.now_of.find(&file); found == pairs.now_of.end())
      changes.push_back(file.path.string() + " is missing");
    else if (std::string change = change_of(file, *found->second); !change.empty())
      changes.push_back(std::move(change));
  for (const data::DataFile* file : pairs.now) changes.push_back(file->path.string() + " is new");
  if (changes.empty() && !come_in_order(before, now, pairs))
    changes.emplace_back("the files come in another order than before");
  return changes;
}

std::vector<std::string> changed_files(const RunData& before, const RunData& now) {
  std::vector<std::string> changes = changed_files(before.train, now.train);
  for (std::string& change : changed_files(before.val, now.val))
    changes.push_back(std::move(change));
  return changes;
}

Repetition compare_with(const RunRecord& record, const RepeatingRun& now, bool accept_data) {
  const bool by_ranks = now.config.precision.accumulate != accum::Accumulation::fixed;
  const Config before = config_to_repeat(record);
  const std::vector<ConfigDifference> stated = stated_otherwise(before, now.config);
  std::vector<std::string> files = changed_files(record.data, now.data);
  check_data(record, files, stated, accept_data);

  Repetition repetition;
  std::vector<Difference> found;
  for (const ConfigDifference& difference : stated) {
    const bool moves = only_moves(difference.key, before, now.config);
    found.push_back(moves ? without_effect(difference) : difference_of(difference));
    if (is_of_plan(difference.key) && !(moves && files.empty())) repetition.keeps_plan = false;
  }
  for (std::string& change : files) found.push_back({"data", std::move(change)});
  for (Difference& difference :
       environment_differences(record.environment, now.environment, by_ranks))
    found.push_back(std::move(difference));
  if (!record.start.empty() && !now.start.empty() && record.start != now.start)
    found.push_back({"the parameters at the start", "it starts from other parameters"});
  repetition.differences = texts_of(found);
  if (have_same_batch(before, now.config)) repetition.batch_changes = record.batch_changes;
  const std::vector<Difference> history = history_of(record, by_ranks);
  repetition.history = texts_of(history);
  found.insert(found.end(), history.begin(), history.end());
  repetition.bits = bits_in_words(now.config, found);
  return repetition;
}

}  // namespace accrue::train
