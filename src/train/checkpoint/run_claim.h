#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "core/descriptor.h"
#include "train/checkpoint/kept_tokenizer.h"

namespace accrue::train {

/// This tells as what a process claims a run directory: as the first rank of one of a run's groups.
struct RunTenure {
  std::string run = new_name();  ///< the same on all ranks of a run that is under way
  std::int64_t generation = 0;   ///< of the group

  static std::string new_name();
};

/// States that this process alone works on a run directory, by a lock (flock) on its file
/// .accrue-lock, which dies with the process; the file says who holds it. It also keeps account of
/// what this process made there, since nothing else is ever removed.
///
/// The first rank of a later group of the same run takes it over from one that lives and was left
/// behind (frozen, or cut off): it puts a lock file of its own in the place of the other. Whoever
/// holds the run asks is_held() before each write, so that the other, if it wakes up, writes
/// nothing.
class RunClaim {
 public:
  /// Makes the folder where there is none. Throws a usage Error if it is no folder or cannot be
  /// written, if a file in it is a link (links_of_run), and where another process holds it: the
  /// message names that process, its host and its start; a runtime Error if the lock fails for
  /// another reason. A process that held it for an earlier group of the same run is no such: it is
  /// followed.
  explicit RunClaim(const RunDirectory& run, RunTenure tenure = {});
  /// Throws a usage Error if something that is no folder is in its place.
  static void expect_folder(const RunDirectory& run);
  /// Lets go, and removes folders that it made if nothing is in them.
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

  /// Why the folder could not be locked (a file system without locks, a system that allows none),
  /// and which folders in it are links to others.
  const std::vector<std::string>& remarks() const { return remarks_; }

  /// Writes config.toml and run.json of a new run, in a folder that holds none, and
  /// `tokenizer` into a folder of it first: a run that is there has all of them. Throws a usage
  /// Error if it cannot, and leaves nothing behind.
  void create(const Config& config, const std::string& run_json,
              const KeptTokenizer& tokenizer = {});
  /// Takes back a run that never got anywhere: removes what `create` and the sinks wrote, unless
  /// there is a whole checkpoint.
  void abandon();
  /// Whether the folder is where it was, and nobody took it over.
  bool is_held() const;
  /// Throws a runtime Error if the folder was deleted, moved, replaced or taken over since.
  void check_there() const;

  const RunTenure& tenure() const { return tenure_; }

 private:
  void make_folder();
  bool open_lock();  ///< false: the file was removed meanwhile
  bool follows_holder() const;
  void replace_lock();
  void write_tokenizer(const KeptTokenizer& tokenizer);
  void say_who() const;
  void release();

  RunDirectory run_;
  RunTenure tenure_;
  Descriptor descriptor_;
  std::vector<std::string> remarks_;
  std::vector<std::filesystem::path> made_folders_;  ///< the outermost first
  std::vector<std::filesystem::path> made_files_;
};

}  // namespace accrue::train
