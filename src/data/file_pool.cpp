#include "file_pool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::data {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

Error unreadable(const std::filesystem::path& path, int error) {
  return runtime_error("read " + path.string(), "the file that was opened before", reason(error),
                       "restoring it, then resuming the run");
}

Error changed(const std::filesystem::path& path, std::int64_t before, std::int64_t now) {
  return runtime_error("read " + path.string(),
                       std::to_string(before) + " bytes, as when it was opened",
                       std::to_string(now) + " bytes", "restoring it, then resuming the run");
}

}  // namespace

/// An open file, closed by whoever lets go of it last.
class FilePool::Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), error_(fd_ < 0 ? errno : 0) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int error() const { return error_; }
  std::int64_t bytes() const {
    struct stat status {};
    return ::fstat(fd_, &status) == 0 ? static_cast<std::int64_t>(status.st_size) : 0;
  }

 private:
  int fd_;
  int error_;
};

FilePool::FilePool(std::vector<std::filesystem::path> paths, const std::string& what)
    : paths_(std::move(paths)) {
  bytes_.reserve(paths_.size());
  for (const std::filesystem::path& path : paths_) {
    const Descriptor file(path);
    if (file.error() != 0) {
      throw usage_error(what, "files that can be read", path.string() + ": " + reason(file.error()),
                        "a glob that leaves it out, or its permissions");
    }
    bytes_.push_back(file.bytes());
  }
}

FilePool::~FilePool() = default;

std::shared_ptr<const FilePool::Descriptor> FilePool::reopen(std::size_t file) const {
  auto descriptor = std::make_shared<const Descriptor>(paths_[file]);
  if (descriptor->error() != 0) throw unreadable(paths_[file], descriptor->error());
  if (descriptor->bytes() != bytes_[file])
    throw changed(paths_[file], bytes_[file], descriptor->bytes());
  return descriptor;
}

// A slot holds any of the files that are congruent modulo the number of slots: no lists to keep,
// and up to that many files never close.
std::shared_ptr<const FilePool::Descriptor> FilePool::descriptor_of(std::size_t file) const {
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
      throw unreadable(paths_[file], errno);
    }
    if (got == 0) throw changed(paths_[file], bytes_[file], descriptor->bytes());
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

}  // namespace accrue::data
