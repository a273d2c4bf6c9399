#include "accrue/core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "accrue/core/error.h"

namespace accrue {
namespace {

Error system_failure(std::string_view operation, const std::filesystem::path& path, int error) {
  return runtime_error(std::string(operation) + " " + path.string(), "a writable place with room",
                       std::strerror(error), "another folder, or free some space");
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags, 0644)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      throw system_failure("write", path, errno);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void sync_to_disk(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY | O_CLOEXEC);
  if (file.get() < 0 || (::fsync(file.get()) != 0 && errno != EINVAL))
    throw system_failure("sync", path, errno);
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), temporary_(path_) {
  temporary_ += ".partial";
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw system_failure("create", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) { write_all(descriptor_, bytes, path_); }

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) throw system_failure("write", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw system_failure("rename", path_, errno);
  ::close(descriptor_);
  descriptor_ = -1;
  sync_to_disk(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    throw usage_error("read " + path.string(), "a readable file",
                      std::filesystem::exists(path) ? "one that cannot be read" : "no such file",
                      "another path");
  }
  return content;
}

}  // namespace accrue
