#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accrue/train/run_directory.h"
#include "data/text/tokenizer_files.h"

namespace accrue::train {

/// States that this process alone works on a run directory, by a lock (flock) on its file
/// .accrue-lock, which dies with the process; the file says who holds it. It also keeps account of
/// what this process made there, since nothing else is ever removed.
class RunClaim {
 public:
  /// Makes the folder where there is none. Throws a usage Error where it is no folder or cannot be
  /// written, and where another process holds it: the message names that process, its host and its
  /// start.
  explicit RunClaim(const RunDirectory& run);
  /// Throws a usage Error where something that is no folder is in its place.
  static void expect_folder(const RunDirectory& run);
  /// Lets go, and removes folders that it made where nothing is in them.
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

  /// Why the folder could not be locked (a file system without locks); empty where it is locked.
  const std::string& remark() const { return remark_; }

  /// Writes config.toml and run.json of a new run, in a folder that holds none, and copies
  /// `tokenizer` into a folder of it first: a run that is there has all of them. Throws a usage
  /// Error where it cannot, and leaves nothing behind.
  void create(const Config& config, const std::string& run_json,
              const std::vector<data::TokenizerPart>& tokenizer = {});
  /// Takes back a run that never got anywhere: removes what `create` and the sinks wrote, unless
  /// there is a whole checkpoint.
  void abandon();
  /// Throws a runtime Error where the folder was deleted, moved or replaced since.
  void check_there() const;

 private:
  void make_folder();
  bool open_lock();  ///< false: the file was removed meanwhile
  void copy_tokenizer(const std::vector<data::TokenizerPart>& parts);
  void say_who() const;
  bool is_there() const;
  void release();

  RunDirectory run_;
  int descriptor_ = -1;
  std::string remark_;
  std::vector<std::filesystem::path> made_folders_;  ///< the outermost first
  std::vector<std::filesystem::path> made_files_;
};

}  // namespace accrue::train
