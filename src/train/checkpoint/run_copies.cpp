#include "train/checkpoint/run_copies.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_folders.h"
#include "train/checkpoint/copied_file.h"
#include "train/checkpoint/run_info.h"
#include "train/checkpoint/run_record.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code unreadable;
  return fs::exists(path, unreadable);
}

/// The text of a folder's run.json; empty if there is none or it cannot be read.
std::string record_text(const RunDirectory& run) {
  try {
    return is_file(run.run_file()) ? read_file(run.run_file()) : "";
  } catch (const Error&) {
    return {};
  }
}

/// Whether a resumption can use this folder's record of its run.
bool has_record(const RunDirectory& run) {
  return is_file(run.config_file()) && is_file(run.run_file());
}

/// The first name in the folder that neither a run nor a shell's redirection created, or empty.
std::string foreign_name(const fs::path& folder) {
  std::error_code unreadable;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && !name.ends_with(".log")) return name;
  }
  return {};
}

/// The folder without links and without a trailing slash, as far as it exists.
fs::path real_path(const fs::path& folder) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(folder), error);
  if (error) path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

bool is_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

std::vector<fs::path> folders_that_can_be_listed(const RunDirectory& run) {
  try {
    return checkpoint_folders(run);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

RunCopies::RunCopies(RunDirectory own, const fs::path& replica) : own_(std::move(own)) {
  if (!replica.empty()) replica_.emplace(replica);
}

void RunCopies::check_own(bool resume) const {
  const std::string where = "run directory " + own_.root().string();
  if (own_.holds_run() && !resume) {
    throw usage_error(where, "an empty or new folder", "one that holds a run already",
                      "--resume to continue it, or another run.out");
  }
  if (resume && !hold_run()) {
    throw usage_error(where, "a run to resume", replica_ ? "none, nor in run.replica" : "none",
                      "leaving --resume out");
  }
  if (own_.holds_run()) return;
  if (const std::string other = foreign_name(own_.root()); !other.empty())
    throw usage_error(where, "an empty or new folder (logs and hidden files aside)",
                      "one that holds " + other,
                      "another run.out, such as " + (own_.root() / "run").string());
}

void RunCopies::check_replica(bool resume) const {
  if (!replica_) return;
  const fs::path& folder = replica_->root();
  const std::string where = "run.replica " + folder.string();
  const fs::path copies = real_path(folder), mine = real_path(own_.root());
  if (is_within(copies, mine) || is_within(mine, copies))
    throw usage_error(where, "a folder that run.out is not in, and that is not in run.out",
                      "run.out = " + own_.root().string(), "a folder on another disk");
  std::error_code unreadable;
  const fs::file_status status = fs::status(folder, unreadable);
  if (fs::exists(status) && !fs::is_directory(status))
    throw usage_error(where, "a folder, or nothing yet", "a file", "another run.replica");
  if (!replica_->holds_run()) {
    if (const std::string other = foreign_name(folder); !other.empty())
      throw usage_error(where, "an empty or new folder (logs and hidden files aside)",
                        "one that holds " + other,
                        "another run.replica, such as " + (folder / "run").string());
    return;
  }
  if (!resume)
    throw usage_error(where, "an empty or new folder", "one that holds a run already",
                      "--resume to continue that run, or another run.replica");
  const std::string own_text = record_text(own_), text = record_text(*replica_);
  if (!is_run_json(text))
    throw usage_error(where, "copies of this run",
                      "a run's files without a run.json, or with a damaged one",
                      "another run.replica");
  if (is_run_json(own_text) && !are_of_one_run(own_text, text))
    throw usage_error(where, "copies of this run", "those of another run", "another run.replica");
}

bool RunCopies::hold_run() const { return own_.holds_run() || (replica_ && has_record(*replica_)); }

const RunDirectory& RunCopies::record() const {
  const bool is_lost = !is_file(own_.config_file());
  return is_lost && replica_ && has_record(*replica_) ? *replica_ : own_;
}

std::vector<std::string> RunCopies::restore_record() const {
  std::vector<std::string> restored;
  if (replica_ && has_record(*replica_)) restored = restore_from_replica();
  recorded(own_);  // throws if it is damaged
  return restored;
}

std::vector<std::string> RunCopies::restore_from_replica() const {
  std::vector<std::string> restored;
  const auto restore = [&](const fs::path& from, const fs::path& to, const std::string& name) {
    if (!is_file(from)) return;
    copy_atomically(from, to);
    if (restored.empty() || restored.back() != name) restored.push_back(name);
  };
  std::error_code unreadable;
  for (const auto& part :
       fs::recursive_directory_iterator(replica_->tokenizer_folder(), unreadable)) {
    if (!is_file(part.path())) continue;
    const fs::path place =
        own_.tokenizer_folder() / part.path().lexically_relative(replica_->tokenizer_folder());
    fs::create_directories(place.parent_path());
    if (!is_file(place)) restore(part.path(), place, "tokenizer");
  }
  if (!is_file(own_.metrics_file()))
    restore(replica_->metrics_file(), own_.metrics_file(), "metrics.jsonl");
  if (!is_run_json(record_text(own_))) restore(replica_->run_file(), own_.run_file(), "run.json");
  // The config comes last: a folder that has it has the others.
  if (!is_file(own_.config_file()))
    restore(replica_->config_file(), own_.config_file(), "config.toml");
  return restored;
}

std::vector<fs::path> RunCopies::checkpoints() const {
  const std::vector<fs::path> own = checkpoint_folders(own_);
  if (!replica_) return own;
  std::vector<fs::path> folders = folders_that_can_be_listed(*replica_);
  if (const auto kept = step_gone_back_to(record_text(own_), record_text(*replica_)))
    std::erase_if(folders, [&](const fs::path& folder) { return step_of_folder(folder) > *kept; });
  folders.insert(folders.end(), own.begin(), own.end());
  std::ranges::stable_sort(folders, {}, step_of_folder);
  return folders;
}

std::optional<fs::path> RunCopies::newest_whole() const {
  const std::vector<fs::path> folders = checkpoints();
  const auto found = std::find_if(folders.rbegin(), folders.rend(), checkpoint_is_whole);
  return found == folders.rend() ? std::nullopt : std::optional(*found);
}

fs::path RunCopies::checkpoint(std::int64_t step) const {
  if (replica_ && !checkpoint_is_whole(own_.checkpoint(step)) &&
      checkpoint_is_whole(replica_->checkpoint(step)))
    return replica_->checkpoint(step);
  return find_checkpoint(record(), step);
}

bool RunCopies::is_of_replica(const fs::path& checkpoint) const {
  return replica_ && checkpoint.parent_path() == replica_->checkpoints();
}

}  // namespace accrue::train
