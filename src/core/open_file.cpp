#include "core/open_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace accrue {
namespace {

namespace fs = std::filesystem;

/// Nothing waits, no terminal takes control of this process, and no child process inherits it.
constexpr int always = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

std::string kind_in_words(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISLNK(mode) ? "a link" : "a device";
}

OpenedFile failed(int error) {
  return {.file = {}, .error = error, .obstacle = std::strerror(error)};
}

OpenedFile of_other_kind(std::string obstacle) {
  return {.file = {}, .error = 0, .obstacle = std::move(obstacle)};
}

bool is_unnamed_pipe(const fs::path& path, mode_t mode) {
  struct statfs system {};
  return S_ISFIFO(mode) && ::statfs(path.c_str(), &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

OpenedFile opened(const fs::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | always, 0644));
  if (!file) return failed(errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return failed(errno);
  if (!S_ISREG(status.st_mode)) return of_other_kind(kind_in_words(status.st_mode));
  return {.file = std::move(file), .error = 0, .obstacle = {}};
}

}  // namespace

OpenedFile open_to_read(const fs::path& path, ReadOrder order) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return failed(errno);
  if (S_ISREG(status.st_mode)) return opened(path, O_RDONLY);
  if (order == ReadOrder::any || !is_unnamed_pipe(path, status.st_mode))
    return of_other_kind(kind_in_words(status.st_mode));
  Descriptor pipe(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!pipe) return failed(errno);
  return {.file = std::move(pipe), .error = 0, .obstacle = {}};
}

std::ifstream stream_to_read(const fs::path& path) {
  return open_to_read(path) ? std::ifstream(path, std::ios::binary) : std::ifstream();
}

OpenedFile create_file(const fs::path& path, int flags) {
  return opened(path, flags | O_CREAT | O_EXCL | O_NOFOLLOW);
}

OpenedFile open_to_change(const fs::path& path, int flags) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return of_other_kind(kind_in_words(status.st_mode));
  OpenedFile changed = opened(path, flags | O_CREAT | O_NOFOLLOW);
  if (changed && ::fstat(changed.file.get(), &status) == 0 && status.st_nlink > 1)
    return of_other_kind("a file that has a second name (a hard link)");
  return changed;
}

bool has_second_name(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1;
}

}  // namespace accrue
