#include "data/text/text_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

/// Holds a folder's lock, where its file system has locks; it dies with the process. Without one
/// several processes may make the same file, of which the first stays.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) return;
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

fs::path make_temporary_folder() {
  std::string name = (fs::temp_directory_path() / "accrue-text-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw runtime_error("make a folder for tokens", "a place for temporary files",
                        name + ": " + std::generic_category().message(errno),
                        "TMPDIR, a folder that can be written");
  return name;
}

/// Why nothing can be written to a folder; empty where it can.
std::string obstacle_of(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return error.message();
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? "" : std::generic_category().message(errno);
}

}  // namespace

TextCache::TextCache(fs::path folder) : folder_(std::move(folder)) {
  const std::string obstacle = folder_.empty() ? "" : obstacle_of(folder_);
  if (!folder_.empty() && obstacle.empty()) return;
  if (!obstacle.empty())
    remark_ = "the tokens of the text are made for this process alone, and not kept in " +
              folder_.string() + " (" + obstacle + ")";
  folder_ = make_temporary_folder();
  is_temporary_ = true;
}

TextCache::~TextCache() {
  std::error_code ignored;
  if (is_temporary_) fs::remove_all(folder_, ignored);
}

fs::path TextCache::file(const std::string& name,
                         const std::function<void(AtomicFile& file)>& make) {
  const fs::path path = folder_ / name;
  std::error_code error;
  if (fs::exists(path, error)) return path;
  const FolderLock lock(folder_);
  if (fs::exists(path, error)) return path;  // another process made it while this one waited
  AtomicFile file(path);
  make(file);
  // A file is never replaced: its readers know it by its time of change.
  file.commit_unless_there();
  return path;
}

}  // namespace accrue::data
