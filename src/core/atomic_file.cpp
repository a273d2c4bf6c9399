#include "core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

#include "accrue/core/error.h"
#include "core/descriptor.h"
#include "core/write_out.h"

namespace accrue {
namespace {

constexpr std::string_view kTemporary = ".partial-";

Error system_failure(std::string_view operation, const std::filesystem::path& path, int error) {
  return runtime_error(std::string(operation) + " " + path.string(), "a writable place with room",
                       std::strerror(error), "another folder, or free some space");
}

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  if (write_out(fd, content) < content.size()) throw system_failure("write", path, errno);
}

/// What `path` points to where it is a link (it need not be there), and `path` otherwise.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int most_links = 40;  // as many as Linux follows
  std::error_code error;
  for (int i = 0; i < most_links && std::filesystem::is_symlink(path, error); ++i)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  return path;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// A rename would put a file in the place of a device or a pipe.
void refuse_what_is_no_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw usage_error(
        "create " + path.string(), "a regular file, or none there",
        std::filesystem::is_directory(status) ? "a folder" : "something that is no regular file",
        "another name");
}

/// A file without a name goes with its process, however that ends. -1 where the file system has
/// none (NFS, FUSE), or where it could not be given a name later.
int open_nameless(const std::filesystem::path& folder) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0644);
}

/// Calls `make(name)` with names beside `path` until one is free; it is to return a negative number
/// and leave errno where it fails.
template <class Make>
std::pair<int, std::filesystem::path> with_free_name(const std::filesystem::path& path,
                                                     const Make& make) {
  const std::string process = std::to_string(::getpid());
  for (int attempt = 0;; ++attempt) {
    std::filesystem::path name = path;
    name += std::string(kTemporary) + process + "-" + std::to_string(attempt);
    const int made = make(name);
    if (made >= 0 || errno != EEXIST) return {made, std::move(name)};
  }
}

std::pair<int, std::filesystem::path> open_beside(const std::filesystem::path& path) {
  return with_free_name(path, [](const std::filesystem::path& name) {
    return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  });
}

/// Gives a nameless file this name. Returns 0, or a negative number where that fails.
int link_nameless(int descriptor, const std::filesystem::path& name) {
  const std::string nameless = "/proc/self/fd/" + std::to_string(descriptor);
  return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
}

/// Gives the name in one step, so that a killed process leaves nothing else. Returns false where
/// there is a file already.
bool give_free_name(int descriptor, const std::filesystem::path& path) {
  if (link_nameless(descriptor, path) == 0) return true;
  if (errno == EEXIST) return false;
  throw system_failure("create", path, errno);
}

/// A name beside `path`: a link cannot replace what is there, a rename can.
std::filesystem::path give_name(int descriptor, const std::filesystem::path& path) {
  auto [made, name] = with_free_name(path, [&](const std::filesystem::path& free_name) {
    return link_nameless(descriptor, free_name);
  });
  if (made < 0) throw system_failure("create", path, errno);
  return name;
}

}  // namespace

void sync_to_disk(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || (::fsync(file.get()) != 0 && errno != EINVAL))
    throw system_failure("sync", path, errno);
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(behind_links(std::move(path))) {
  refuse_what_is_no_file(path_);
  descriptor_ = open_nameless(folder_of(path_));
  if (descriptor_ < 0) std::tie(descriptor_, temporary_) = open_beside(path_);
  if (descriptor_ < 0) throw system_failure("create", path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) { write_all(descriptor_, bytes, path_); }

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) throw system_failure("write", path_, errno);
  if (!temporary_.empty() || !give_free_name(descriptor_, path_)) replace();
  ::close(descriptor_);
  descriptor_ = -1;
  sync_to_disk(folder_of(path_));
}

void AtomicFile::commit_unless_there() {
  if (::fsync(descriptor_) != 0) throw system_failure("write", path_, errno);
  if (temporary_.empty()) {
    give_free_name(descriptor_, path_);
  } else if (::link(temporary_.c_str(), path_.c_str()) != 0 && errno != EEXIST) {
    throw system_failure("create", path_, errno);
  }
  sync_to_disk(folder_of(path_));
}

void AtomicFile::replace() {
  if (temporary_.empty()) temporary_ = give_name(descriptor_, path_);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw system_failure("rename", path_, errno);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

bool is_temporary_of(const std::filesystem::path& name, const std::filesystem::path& path) {
  const std::string own = path.string() + std::string(kTemporary), text = name.string();
  return text.starts_with(own) && text.find_first_not_of("0123456789-", own.size()) == text.npos;
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
