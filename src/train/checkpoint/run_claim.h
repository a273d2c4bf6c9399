#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "core/descriptor.h"
#include "train/checkpoint/kept_tokenizer.h"

namespace accrue::train {

/// The identity under which a process claims a run directory: first rank of a group of a run.
struct RunTenure {
  std::string run = new_name();  ///< the same on all ranks of a running job
  std::int64_t generation = 0;   ///< number of the group

  static std::string new_name();
};

/// States that this process alone works on a run directory, by a lock (flock) on its file
/// .accrue-lock, which the system releases when the process ends; the file names the holder. It
/// also records what this process created there, since nothing else is ever removed.
///
/// The first rank of a later group of the same run takes the run over from a process that is
/// alive but was left out (frozen, or cut off): it replaces the lock file with its own. The
/// holder asks is_held() before each write, so that the other process, if it wakes up, writes
/// nothing.
class RunClaim {
 public:
  /// Creates the folder if it does not exist. Throws a usage Error if it is not a folder or cannot
  /// be written, if a file in it is a link (links_of_run), and if another process holds it: the
  /// message names that process, its host and its start. Throws a runtime Error if the lock fails
  /// for another reason. A process that held it for an earlier group of the same run does not
  /// count: this one takes over from it.
  explicit RunClaim(const RunDirectory& run, RunTenure tenure = {});
  /// Throws a usage Error if something that is not a folder is at its path.
  static void expect_folder(const RunDirectory& run);
  /// Releases the run, and removes the folders that it created if they are empty.
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

  /// Why the folder could not be locked (a file system without locks, a system that allows none),
  /// and which folders in it are links to other folders.
  const std::vector<std::string>& remarks() const { return remarks_; }

  /// Writes config.toml and run.json of a new run into a folder that holds none, and `tokenizer`
  /// into a subfolder first: a run that exists has all of them. Throws a usage Error if it cannot,
  /// and leaves no files.
  void create(const Config& config, const std::string& run_json,
              const KeptTokenizer& tokenizer = {});
  /// Undoes a run that never made progress: removes what `create` and the sinks wrote, unless there
  /// is a whole checkpoint.
  void abandon();
  /// Whether the folder is still at its path, and no other process took it over.
  bool is_held() const;
  /// Throws a runtime Error if the folder has been deleted, moved, replaced or taken over.
  void check_there() const;

  const RunTenure& tenure() const { return tenure_; }

 private:
  void make_folder();
  bool open_lock();  ///< false: the file was removed meanwhile
  bool supersedes_holder() const;
  void replace_lock();
  void write_tokenizer(const KeptTokenizer& tokenizer);
  void write_holder() const;
  void release();

  RunDirectory run_;
  RunTenure tenure_;
  Descriptor descriptor_;
  std::vector<std::string> remarks_;
  std::vector<std::filesystem::path> made_folders_;  ///< the outermost first
  std::vector<std::filesystem::path> made_files_;
};

}  // namespace accrue::train
