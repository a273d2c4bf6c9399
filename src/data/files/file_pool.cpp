#include "data/files/file_pool.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "core/open_file.h"

namespace accrue::data {
namespace {

std::string system_text(int error) { return std::generic_category().message(error); }

Error unreadable(const std::filesystem::path& path, const std::string& reason) {
  return runtime_error("read " + path.string(), "the file that was opened before", reason,
                       "restoring it, then resuming the run");
}

Error changed(const std::filesystem::path& path, const std::string& expected,
              const std::string& received) {
  return runtime_error("read " + path.string(), expected, received,
                       "restoring it, then resuming the run (a file that was mended on purpose: "
                       "--resume --accept-data)");
}

std::vector<std::filesystem::path> paths_of(const std::vector<FileHead>& heads) {
  std::vector<std::filesystem::path> paths;
  paths.reserve(heads.size());
  for (const FileHead& head : heads) paths.push_back(head.path);
  return paths;
}

}  // namespace

/// An open file, closed when its last owner releases it.
class FilePool::Opened {
 public:
  explicit Opened(const std::filesystem::path& path) : opened_(open_to_read(path)) {}

  int get() const { return opened_.file.get(); }
  /// Why it is not open; empty if it is.
  const std::string& obstacle() const { return opened_.obstacle; }
  Version version() const {
    struct stat status {};
    if (::fstat(get(), &status) != 0) return {};
    constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;
    return {.bytes = status.st_size,
            .modified_ns = status.st_mtim.tv_sec * nanoseconds_per_second + status.st_mtim.tv_nsec};
  }

 private:
  OpenedFile opened_;
};

FilePool::FilePool(std::vector<std::filesystem::path> paths, const std::string& what)
    : paths_(std::move(paths)) {
  versions_.reserve(paths_.size());
  for (const std::filesystem::path& path : paths_) {
    const Opened file(path);
    if (!file.obstacle().empty())
      throw usage_error(what, "files that can be read", path.string() + ": " + file.obstacle(),
                        "a glob that leaves it out, or its permissions");
    versions_.push_back(file.version());
    bytes_.push_back(versions_.back().bytes);
  }
}

FilePool::FilePool(const std::vector<FileHead>& heads, const std::string& what)
    : FilePool(paths_of(heads), what) {
  for (std::size_t file = 0; file < heads.size(); ++file) bytes_[file] = heads[file].bytes;
}

FilePool::~FilePool() = default;

std::shared_ptr<const FilePool::Opened> FilePool::reopen(std::size_t file) const {
  auto descriptor = std::make_shared<const Opened>(paths_[file]);
  if (!descriptor->obstacle().empty()) throw unreadable(paths_[file], descriptor->obstacle());
  require_unchanged(file, *descriptor);
  return descriptor;
}

void FilePool::require_unchanged(std::size_t file, const Opened& descriptor) const {
  const Version before = versions_[file], now = descriptor.version();
  if (now == before) return;
  if (now.bytes != before.bytes)
    throw changed(paths_[file], std::to_string(before.bytes) + " bytes, as when it was opened",
                  std::to_string(now.bytes) + " bytes");
  throw changed(paths_[file], "the content that it had when it was opened",
                "a file that was written to since");
}

// A slot holds any of the files that are congruent modulo the number of slots: no lists to keep,
// and up to that many files never close.
std::shared_ptr<const FilePool::Opened> FilePool::descriptor_of(std::size_t file) const {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[file % max_open_files];
  if (!slot.descriptor || slot.file != file) {
    slot.descriptor.reset();
    slot.descriptor = reopen(file);
    slot.file = file;
  }
  return slot.descriptor;
}

void FilePool::read(std::size_t file, std::int64_t offset, std::span<std::byte> out) const {
  const auto descriptor = descriptor_of(file);
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor->get(), out.data(), out.size(), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw unreadable(paths_[file], system_text(errno));
    }
    if (got == 0) break;
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  // Afterwards, so that a change before or during reading is noticed.
  require_unchanged(file, *descriptor);
  if (!out.empty()) throw unreadable(paths_[file], system_text(EIO));
}

}  // namespace accrue::data
