#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/files/file_pool.h"

namespace accrue::data {

/// Appends bytes to a file that is being made.
using WriteBytes = std::function<void(std::string_view bytes)>;

/// Files that were derived from text, by a digest of everything from which they were made. Each is
/// sealed (SealedFile) and verified when it is opened: one that is damaged, or has no seal, is made
/// again. Several processes may share a folder: one makes a file, and those that need it meanwhile
/// wait.
class TextCache {
 public:
  /// Files stay in `folder`, which is created if it does not exist. If that is empty or cannot be
  /// written, they are temporary files that are removed with this object.
  explicit TextCache(std::filesystem::path folder);
  ~TextCache();
  TextCache(const TextCache&) = delete;
  TextCache& operator=(const TextCache&) = delete;

  /// The content of the file `name`, which `make` writes if it does not exist intact.
  FileHead file(const std::string& name, const std::function<void(const WriteBytes& write)>& make);
  /// Why the files are not saved, if that was requested, and which were damaged and are made again:
  /// a sentence each.
  std::vector<std::string> remarks() const;

 private:
  std::filesystem::path folder_;
  bool is_temporary_ = false;
  std::string not_kept_;              ///< why; empty: they are saved, or need not be
  std::vector<std::string> damaged_;  ///< each file with what is wrong
};

/// The content of a file from the cache.
std::string content_of(const FileHead& kept);

}  // namespace accrue::data
