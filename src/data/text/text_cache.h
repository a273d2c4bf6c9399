#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "core/atomic_file.h"

namespace accrue::data {

/// Files of what text was made into, by a digest of all that it was made from: a file that is there
/// is the right one and whole. Several processes may share a folder: one makes a file, and those
/// that want it meanwhile wait.
class TextCache {
 public:
  /// Files stay in `folder`, which is made where there is none. Where that is empty or cannot be
  /// written, they are temporary ones that go with this object.
  explicit TextCache(std::filesystem::path folder);
  ~TextCache();
  TextCache(const TextCache&) = delete;
  TextCache& operator=(const TextCache&) = delete;

  /// The file `name`, which `make` fills where it is not there yet.
  std::filesystem::path file(const std::string& name,
                             const std::function<void(AtomicFile& file)>& make);
  /// Why the files are not kept, as a sentence; empty where they are, or nobody asked for it.
  const std::string& remark() const { return remark_; }

 private:
  std::filesystem::path folder_;
  bool is_temporary_ = false;
  std::string remark_;
};

}  // namespace accrue::data
