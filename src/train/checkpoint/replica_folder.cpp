#include "train/checkpoint/replica_folder.h"

#include <ATen/record_function.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/open_file.h"
#include "observe/jsonl_sink.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/copied_file.h"
#include "train/checkpoint/manifest.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;

/// A file that can be read even if its name is gone.
struct OpenFile {
  std::string name;
  std::ifstream content;
};

bool is_missing(const fs::path& path) {
  std::error_code error;
  return !fs::exists(path, error) && !error;
}

/// The device that a folder is on; none if there is no folder.
std::optional<dev_t> disk_of(const fs::path& folder) {
  struct stat found {};
  return ::stat(folder.c_str(), &found) == 0 ? std::optional(found.st_dev) : std::nullopt;
}

/// All files of a checkpoint, the manifest last; none if the checkpoint was removed meanwhile. A
/// removal first renames the folder, so files are missing only if it is gone.
std::vector<OpenFile> open_files(const fs::path& checkpoint) {
  std::vector<OpenFile> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint, error))
    files.push_back({entry.path().filename().string(), stream_to_read(entry.path())});
  const auto unread =
      std::ranges::find_if(files, [](const OpenFile& file) { return !file.content.is_open(); });
  if (error || unread != files.end()) {
    if (is_missing(checkpoint)) return {};
    throw runtime_error("read " + checkpoint.string(), "files that can be read",
                        error ? error.message() : unread->name + ", which cannot",
                        "mending the file system that it is on");
  }
  std::ranges::sort(files, {}, [](const OpenFile& file) {
    return std::pair(file.name == manifest_file, file.name);
  });
  return files;
}

/// Writes the checkpoint whole or not at all, as write_checkpoint() does, after comparing what was
/// written with its checksums.
void write_copy(std::vector<OpenFile> files, const fs::path& checkpoint) {
  const fs::path partial = partial_of(checkpoint);
  try {
    fs::remove_all(partial);
    fs::create_directory(partial);
    for (OpenFile& file : files) {
      RECORD_USER_SCOPE("replica: file");
      copy_atomically(file.content, partial / file.name);
    }
    const VerifiedCheckpoint as_written(partial);
    put_in_place(partial, checkpoint);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
}

/// Copies a file of the run's own if it differs. A file that the run does not have (a run without
/// metrics) is left out.
void copy_if_other(const fs::path& from, const fs::path& to) {
  if (!fs::exists(from)) return;
  const std::string content = read_file(from);
  if (!fs::exists(to) || read_file(to) != content) write_file_atomically(to, content);
}

}  // namespace

void ReplicaFolder::claim() {
  if (claim_) {
    try {
      return claim_->check_there();
    } catch (const Error&) {
      claim_.reset();
    }
  }
  expect_no_other_disk();
  claim_ = std::make_unique<RunClaim>(*run_.replica(), tenure_);
  disk_ = disk_of(path());
  try {
    run_.check_replica(true);
    sweep(*run_.replica());
  } catch (...) {
    claim_.reset();
    throw;
  }
}

/// A disk that is mounted again may have another device number, but then it has the copies.
void ReplicaFolder::expect_no_other_disk() const {
  if (!disk_) return;
  const auto now = disk_of(path());
  if (now == disk_ || (now && fs::exists(run_.replica()->run_file()))) return;
  throw runtime_error("copy to " + path().string(), "the folder that was there before",
                      now ? "another disk's: its own is not mounted"
                          : "none: it was deleted, moved or is not mounted",
                      "making or mounting it again");
}

bool ReplicaFolder::copy(const PruneOptions& prune) {
  RECORD_USER_SCOPE("replica: copy");
  std::vector<OpenFile> files = open_files(run_.own().checkpoint(prune.newest));
  if (files.empty()) return false;
  claim();
  copy_first_files();
  // Metrics come before the checkpoint, whose metrics are then all there; run.json comes after the
  // removal of an abandoned attempt, which can only be recognized by it (step_gone_back_to).
  copy_metrics(prune.newest);
  write_copy(std::move(files), run_.replica()->checkpoint(prune.newest));
  prune_checkpoints(*run_.replica(), prune);
  copy_record(prune.newest);
  return true;
}

/// The files of a new run directory. run.json comes first: it identifies the folder's run.
void ReplicaFolder::copy_first_files() {
  const RunDirectory &own = run_.own(), &replica = *run_.replica();
  if (!fs::exists(replica.run_file())) copy_if_other(own.run_file(), replica.run_file());
  if (!fs::exists(replica.config_file())) copy_if_other(own.config_file(), replica.config_file());
  if (fs::exists(own.tokenizer_folder()))
    for (const auto& part : fs::recursive_directory_iterator(own.tokenizer_folder())) {
      if (!part.is_regular_file()) continue;
      const fs::path place =
          replica.tokenizer_folder() / part.path().lexically_relative(own.tokenizer_folder());
      fs::create_directories(place.parent_path());
      if (!fs::exists(place)) copy_atomically(part.path(), place);
    }
  fs::create_directory(replica.checkpoints());
}

void ReplicaFolder::copy_metrics(std::int64_t step) {
  std::ifstream metrics = stream_to_read(run_.own().metrics_file());
  if (!metrics) return;
  const std::int64_t bytes = observe::bytes_of_metrics(metrics, step);
  copy_atomically(metrics, run_.replica()->metrics_file(), bytes);
}

void ReplicaFolder::copy_record(std::int64_t step) {
  claim();
  copy_metrics(step);
  copy_if_other(run_.own().config_file(), run_.replica()->config_file());
  copy_if_other(run_.own().run_file(), run_.replica()->run_file());
}

std::string ReplicaFolder::give_up_after(std::int64_t step) {
  return train::give_up_after(*run_.replica(), step);
}

}  // namespace accrue::train
