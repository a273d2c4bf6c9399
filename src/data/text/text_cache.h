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

/// Files of what text was made into, by a digest of all that it was made from. Each is sealed
/// (SealedFile) and compared with its seal when it is opened: one that is damaged, or has no seal,
/// is made again. Several processes may share a folder: one makes a file, and those that want it
/// meanwhile wait.
class TextCache {
 public:
  /// Files stay in `folder`, which is made if there is none. If that is empty or cannot be
  /// written, they are temporary ones that go with this object.
  explicit TextCache(std::filesystem::path folder);
  ~TextCache();
  TextCache(const TextCache&) = delete;
  TextCache& operator=(const TextCache&) = delete;

  /// The content of the file `name`, which `make` writes if it is not there as it was written.
  FileHead file(const std::string& name, const std::function<void(const WriteBytes& write)>& make);
  /// Why the files are not kept, if somebody asked for it, and which were damaged and are made
  /// again: a sentence each.
  std::vector<std::string> remarks() const;

 private:
  std::filesystem::path folder_;
  bool is_temporary_ = false;
  std::string not_kept_;              ///< why; empty: they are, or nobody asked for it
  std::vector<std::string> damaged_;  ///< each file with what is wrong
};

/// What a file that the cache gave holds.
std::string content_of(const FileHead& kept);

}  // namespace accrue::data
