#include "data/text/tokens/text_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "accrue/core/error.h"
#include "core/open_file.h"
#include "core/sealed_file.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

/// Holds a folder's lock, if its file system has locks; it ends with the process. Without one
/// several processes may make the same file, of which the first stays.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : file_(open_to_change(folder / ".lock", O_RDWR).file) {
    if (!file_) return;
    while (::flock(file_.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
  }

 private:
  Descriptor file_;
};

fs::path make_temporary_folder() {
  std::string name = (fs::temp_directory_path() / "accrue-text-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw runtime_error("make a folder for tokens", "a place for temporary files",
                        name + ": " + std::generic_category().message(errno),
                        "TMPDIR, a folder that can be written");
  return name;
}

/// Why a folder cannot be written to; empty if it can.
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
    not_kept_ = "the tokens of the text are made for this process alone, and not kept in " +
                folder_.string() + " (" + obstacle + ")";
  folder_ = make_temporary_folder();
  is_temporary_ = true;
}

TextCache::~TextCache() {
  std::error_code ignored;
  if (is_temporary_) fs::remove_all(folder_, ignored);
}

FileHead TextCache::file(const std::string& name,
                         const std::function<void(const WriteBytes& write)>& make) {
  const fs::path path = folder_ / name;
  std::error_code error;
  const auto found = [&] { return fs::exists(path, error) ? check_sealed(path) : SealedContent{}; };
  SealedContent kept = found();
  if (kept.bytes) return {path, *kept.bytes};
  if (!kept.damage.empty()) damaged_.push_back(path.string() + " " + kept.damage);
  const FolderLock lock(folder_);
  kept = found();  // another process may have made it while this one waited
  if (kept.bytes) return {path, *kept.bytes};
  SealedFile file(path);
  make([&](std::string_view bytes) { file.write(bytes); });
  // An intact file is not replaced: its readers identify it by its time of change.
  if (kept.damage.empty())
    file.commit_unless_there();
  else
    file.commit();
  return {path, file.bytes()};
}

std::vector<std::string> TextCache::remarks() const {
  std::vector<std::string> remarks;
  if (!not_kept_.empty()) remarks.push_back(not_kept_);
  if (damaged_.size() == 1) remarks.push_back(damaged_.front() + "; it is made again");
  if (damaged_.size() > 1)
    remarks.push_back(std::to_string(damaged_.size()) + " files in " + folder_.string() +
                      " are made again; the first, " + damaged_.front());
  return remarks;
}

std::string content_of(const FileHead& kept) {
  std::string content = read_file(kept.path);
  content.resize(static_cast<std::size_t>(kept.bytes));
  return content;
}

}  // namespace accrue::data
