#include "train/checkpoint/checkpoint_folders.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/words.h"
#include "train/checkpoint/checkpoint.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";
constexpr std::string_view partial_suffix = ".partial";
constexpr std::string_view replaced_suffix = ".replaced";
constexpr std::string_view removed_suffix = ".removed";

std::optional<std::int64_t> step_in(std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, step);
  return error == std::errc{} && stop == end ? std::optional(step) : std::nullopt;
}

fs::path hidden(const fs::path& checkpoint, std::string_view suffix) {
  return checkpoint.parent_path() / ("." + checkpoint.filename().string() + std::string(suffix));
}

/// The checkpoint that a hidden folder belongs to; none if the name is not one that we make.
std::optional<fs::path> checkpoint_of(const fs::path& folder, std::string_view suffix) {
  const std::string name = folder.filename().string();
  if (!name.starts_with('.') || !name.ends_with(suffix)) return std::nullopt;
  const std::string inner = name.substr(1, name.size() - 1 - suffix.size());
  return step_in(inner) ? std::optional(folder.parent_path() / inner) : std::nullopt;
}

/// Whether it is being written; earlier versions did not put the process in the name.
bool is_partial(const fs::path& folder) {
  std::string name = folder.filename().string();
  if (!name.starts_with('.') || !name.ends_with(partial_suffix)) return false;
  name = name.substr(1, name.size() - 1 - partial_suffix.size());
  const std::size_t process = name.rfind('-');
  if (process != std::string::npos && process > prefix.size()) name.resize(process);
  return step_in(name).has_value();
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    entries.push_back(entry.path());
  return entries;
}

/// Whether the name is taken, also by a link to nothing, which a folder cannot be renamed to.
bool is_taken(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

/// Swaps two folders in one step, so that a whole checkpoint is at `to` at any moment. Returns
/// false if the file system (NFS, FUSE) does not support it.
bool exchange(const fs::path& from, const fs::path& to) {
  return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
}

std::vector<std::string> in_words(const std::vector<std::int64_t>& steps) {
  std::vector<std::string> words;
  for (const std::int64_t step : steps) words.push_back(std::to_string(step));
  return words;
}

/// The best checkpoint among those after `step`, from their own bookkeeping.
std::optional<std::int64_t> best_after(const RunDirectory& run,
                                       const std::vector<std::int64_t>& later, std::int64_t step) {
  const TrainState newest = read_checkpoint_state(run.checkpoint(later.back()));
  const auto best = newest.best_step;
  return best && *best > step && std::ranges::binary_search(later, *best) ? best : std::nullopt;
}

fs::path set_aside(const RunDirectory& run, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "best-%08lld", static_cast<long long>(step));
  fs::path place = run.checkpoints() / name;
  for (int again = 2; is_taken(place); ++again)
    place = run.checkpoints() / (std::string(name) + "-" + std::to_string(again));
  fs::rename(run.checkpoint(step), place);
  return place;
}

}  // namespace

std::optional<std::int64_t> step_of_folder(const fs::path& folder) {
  return step_in(folder.filename().string());
}

std::vector<fs::path> checkpoint_folders(const RunDirectory& run) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run.checkpoints(), error))
    if (step_of_folder(entry.path())) folders.push_back(entry.path());
  if (error && error != std::errc::no_such_file_or_directory)
    throw runtime_error("list checkpoints", "a readable " + run.checkpoints().string(),
                        error.message(), "mending the file system first");
  std::ranges::sort(folders, {}, step_of_folder);
  return folders;
}

fs::path partial_of(const fs::path& checkpoint) {
  return hidden(checkpoint, "-" + std::to_string(::getpid()) + std::string(partial_suffix));
}

void put_in_place(const fs::path& partial, const fs::path& checkpoint) {
  if (!is_taken(checkpoint)) {
    fs::rename(partial, checkpoint);
  } else if (exchange(partial, checkpoint)) {
    fs::remove_all(partial);
  } else {
    // The old one is set aside first: a rename does not replace a folder that is not empty.
    const fs::path old = hidden(checkpoint, replaced_suffix);
    fs::remove_all(old);
    fs::rename(checkpoint, old);
    fs::rename(partial, checkpoint);
    fs::remove_all(old);
  }
  sync_to_disk(checkpoint.parent_path());
}

void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path removed = hidden(checkpoint, removed_suffix);
  fs::remove_all(removed, ignored);
  fs::rename(checkpoint, removed, ignored);
  fs::remove_all(removed, ignored);
}

void sweep(const RunDirectory& run) {
  std::error_code ignored;
  for (const fs::path& entry : entries_of(run.root()))
    if (is_temporary_of(entry, run.config_file()) || is_temporary_of(entry, run.run_file()) ||
        is_temporary_of(entry, run.metrics_file()))
      fs::remove(entry, ignored);
  for (const fs::path& entry : entries_of(run.checkpoints())) {
    const auto replaced = checkpoint_of(entry, replaced_suffix);
    if (replaced && !fs::exists(*replaced, ignored)) {
      fs::rename(entry, *replaced, ignored);
    } else if (replaced || is_partial(entry) || checkpoint_of(entry, removed_suffix)) {
      fs::remove_all(entry, ignored);
    }
  }
}

void prune_checkpoints(const RunDirectory& run, const PruneOptions& options,
                       const std::function<void()>& expect_held) {
  const auto remove = [&](const fs::path& folder) {
    if (expect_held) expect_held();
    remove_checkpoint(folder);
  };
  for (const fs::path& folder : checkpoint_folders(run))
    if (*step_of_folder(folder) > options.newest) remove(folder);
  const std::vector<std::int64_t> steps = run.checkpoint_steps();
  const auto surplus = static_cast<std::int64_t>(steps.size()) - options.keep;
  for (std::int64_t i = 0; i < surplus; ++i) {
    const std::int64_t step = steps[static_cast<std::size_t>(i)];
    if (step != options.best) remove(run.checkpoint(step));
  }
  if (expect_held) expect_held();
  sweep(run);
}

std::string give_up_after(const RunDirectory& run, std::int64_t step) {
  std::vector<std::int64_t> later = run.checkpoint_steps();
  std::erase_if(later, [&](std::int64_t other) { return other <= step; });
  if (later.empty()) return {};
  std::string text;
  if (const auto best = best_after(run, later, step)) {
    text = "the best evaluated checkpoint, of step " + std::to_string(*best) +
           ", is of the attempt that is given up and is kept as " + set_aside(run, *best).string();
    std::erase(later, *best);
  }
  if (later.empty()) return text;
  return text + (text.empty() ? "" : "; ") + "the later checkpoints, of step " +
         listed(in_words(later), "and") +
         ", are of the attempt that is given up: they are removed when the next one is written";
}

}  // namespace accrue::train
