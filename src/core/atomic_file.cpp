#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "accrue/core/error.h"
#include "core/descriptor.h"
#include "core/near_path.h"
#include "core/write_out.h"

namespace accrue {
namespace {

constexpr std::string_view kTemporary = ".partial-";

/// The condition that a failed system call did not find, and what to try.
struct Want {
  std::string_view expected, suggestion;
};

Want want_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return {"a place with room", "another folder, or free some space"};
    case EPERM:
      return {
          "a system that allows it",
          "another folder; in a container, a newer runtime or seccomp profile, which allows the "
          "system calls of this program"};
    case EACCES:
    case EROFS:
      return {"a place that this user may write to", "another folder, or its permissions"};
    case EMFILE:
    case ENFILE:
      return {"a file that may be opened", "a higher limit of open files (ulimit -n)"};
    default:
      return {"a place that can be written", "another folder"};
  }
}

Error system_failure(std::string_view operation, const std::filesystem::path& path, int error) {
  const Want want = want_of(error);
  return runtime_error(std::string(operation) + " " + path.string(), want.expected,
                       std::strerror(error), want.suggestion);
}

void write_all(int fd, std::string_view content, const std::filesystem::path& path) {
  if (write_out(fd, content) < content.size()) throw system_failure("write", path, errno);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Refuses a link, a device or a pipe, which a rename would replace by a file.
void refuse_what_is_no_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  if (std::filesystem::is_symlink(status))
    throw usage_error("create " + path.string(), "a regular file, or none there",
                      "a link to " + std::filesystem::read_symlink(path, error).string(),
                      "removing the link, or the name of the file that it leads to");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw usage_error(
        "create " + path.string(), "a regular file, or none there",
        std::filesystem::is_directory(status) ? "a folder" : "something that is no regular file",
        "another name");
}

/// Opens a file without a name, which ends with its process in any case. -1 if the file system has
/// none (NFS, FUSE), or if it could not be given a name later.
int open_nameless(const std::filesystem::path& folder) {
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0644);
}

/// Calls `make(name)` with names next to `path` until one is free; `make` must return a negative
/// number and leave errno if it fails.
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
    OpenedFile made = create_file(name, O_WRONLY);
    errno = made.error;
    return made.file.release();
  });
}

/// Gives a nameless file this name. Returns 0, or a negative number on failure.
int link_nameless(int descriptor, const std::filesystem::path& name) {
  const std::string nameless = "/proc/self/fd/" + std::to_string(descriptor);
  return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW);
}

/// Moves unless a file of that name exists. A file system without hard links (FAT, some of FUSE)
/// has renames that replace nothing.
void move_unless_there(const std::filesystem::path& temporary, const std::filesystem::path& path) {
  if (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST) return;
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0 ||
      errno == EEXIST)
    return;
  throw system_failure("create", path, errno);
}

/// Sets `content` to the rest of the file. Returns the system's reason on failure.
std::string read_to_end(const Descriptor& file, std::string& content) {
  struct stat status {};
  const bool is_known = ::fstat(file.get(), &status) == 0;
  constexpr std::size_t least_at_once = 1 << 16;
  constexpr std::size_t most_at_once = 1 << 26;  // a stated size may exceed any disk
  // One byte more than the size shows the end without another read.
  std::size_t at_once = is_known ? std::clamp(static_cast<std::size_t>(status.st_size) + 1,
                                              least_at_once, most_at_once)
                                 : least_at_once;
  for (std::size_t size = 0;;) {
    if (size == content.size()) content.resize(size + std::exchange(at_once, least_at_once));
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    const int error = errno;
    if (got <= 0) content.resize(size);
    if (got < 0) return std::strerror(error);
    if (got == 0) return {};
    size += static_cast<std::size_t>(got);
  }
}

}  // namespace

void sync_to_disk(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || (::fsync(file.get()) != 0 && errno != EINVAL))
    throw system_failure("sync", path, errno);
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
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

void AtomicFile::sync() const {
  if (::fsync(descriptor_) != 0) throw system_failure("write", path_, errno);
}

/// Gives the name in one step, so that a killed process leaves nothing else. Returns false if there
/// already is a file, or if the system refuses it, as in some containers: then the temporary has a
/// name.
bool AtomicFile::give_free_name() {
  if (link_nameless(descriptor_, path_) == 0) return true;
  if (errno != EEXIST) copy_to_named();
  return false;
}

/// Gives a temporary name: a link cannot replace an existing file, but a rename can.
void AtomicFile::name_temporary() {
  auto [made, name] = with_free_name(path_, [this](const std::filesystem::path& free_name) {
    return link_nameless(descriptor_, free_name);
  });
  if (made < 0) return copy_to_named();
  temporary_ = std::move(name);
}

void AtomicFile::copy_to_named() {
  constexpr std::size_t block = 1 << 20;
  auto [copy, name] = open_beside(path_);
  if (copy < 0) throw system_failure("create", path_, errno);
  const int nameless = std::exchange(descriptor_, copy);
  temporary_ = std::move(name);
  const Descriptor source(nameless);
  std::string bytes(block, '\0');
  off_t at = 0;
  while (const ssize_t got = ::pread(source.get(), bytes.data(), block, at)) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_failure("read", path_, errno);
    write({bytes.data(), static_cast<std::size_t>(got)});
    at += got;
  }
  sync();
}

void AtomicFile::commit() {
  sync();
  if (!temporary_.empty() || !give_free_name()) {
    if (temporary_.empty()) name_temporary();
    if (::rename(temporary_.c_str(), path_.c_str()) != 0)
      throw system_failure("rename", path_, errno);
  }
  ::close(descriptor_);
  descriptor_ = -1;
  sync_to_disk(folder_of(path_));
}

void AtomicFile::commit_unless_there() {
  sync();
  if (temporary_.empty()) give_free_name();
  if (!temporary_.empty()) move_unless_there(temporary_, path_);
  sync_to_disk(folder_of(path_));
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

std::string read_file(const std::filesystem::path& path, ReadOrder order) {
  OpenedFile opened = open_to_read(path, order);
  std::string content;
  if (opened) opened.obstacle = read_to_end(opened.file, content);
  if (opened.obstacle.empty()) return content;
  const bool is_missing = opened.error == ENOENT;
  throw usage_error("read " + path.string(), "a readable file",
                    is_missing ? "no such file" : opened.obstacle,
                    is_missing ? near_path_or(path, "another path") : "another path");
}

}  // namespace accrue
