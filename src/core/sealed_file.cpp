#include "core/sealed_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/descriptor.h"
#include "core/open_file.h"

namespace accrue {
namespace {

constexpr std::string_view seal_magic = "ACSEAL1\n";
constexpr std::size_t checksum_digits = 16;
constexpr std::size_t seal_bytes = seal_magic.size() + sizeof(std::int64_t) + checksum_digits;

/// The seal of a file with the content that `checksum` has processed.
std::string seal_of(Checksum checksum, const std::string& name, std::int64_t bytes) {
  std::string seal(seal_magic);
  for (int byte = 0; byte < 8; ++byte)
    seal.push_back(static_cast<char>(static_cast<std::uint64_t>(bytes) >> 8 * byte & 0xff));
  checksum.add("\n" + name + "\n" + std::to_string(bytes));
  return seal + checksum.text();
}

SealedContent damaged(std::string damage) {
  return {.bytes = std::nullopt, .damage = std::move(damage)};
}

SealedContent unreadable(const std::string& obstacle) {
  return damaged("cannot be read: " + obstacle);
}

SealedContent unreadable(int error) { return unreadable(std::generic_category().message(error)); }

/// Fills `out` from `offset`. Returns 0, or the error number.
int read_at(int descriptor, std::int64_t offset, std::span<char> out) {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return 0;
}

}  // namespace

SealedFile::SealedFile(const std::filesystem::path& path)
    : file_(path), name_(path.filename().string()) {}

void SealedFile::write(std::string_view bytes) {
  file_.write(bytes);
  checksum_.add(bytes);
  bytes_ += std::ssize(bytes);
}

void SealedFile::write_seal() { file_.write(seal_of(std::move(checksum_), name_, bytes_)); }

void SealedFile::commit() {
  write_seal();
  file_.commit();
}

void SealedFile::commit_unless_there() {
  write_seal();
  file_.commit_unless_there();
}

SealedContent check_sealed(const std::filesystem::path& path) {
  constexpr std::int64_t block = std::int64_t{1} << 20;
  const OpenedFile opened = open_to_read(path);
  if (!opened) return unreadable(opened.obstacle);
  const Descriptor& file = opened.file;
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return unreadable(errno);
  const std::int64_t bytes = status.st_size - static_cast<std::int64_t>(seal_bytes);
  std::array<char, seal_bytes> seal{};
  if (bytes < 0) return damaged("is cut short");
  if (const int error = read_at(file.get(), bytes, seal)) return unreadable(error);
  const std::string_view found(seal.data(), seal.size());
  if (!found.starts_with(seal_magic))
    return damaged("has no checksum at its end: it is damaged, or of an earlier version");
  Checksum checksum;
  std::vector<char> buffer(static_cast<std::size_t>(std::min(block, bytes)));
  for (std::int64_t offset = 0; offset < bytes; offset += block) {
    const auto part =
        std::span(buffer).first(static_cast<std::size_t>(std::min(block, bytes - offset)));
    if (const int error = read_at(file.get(), offset, part)) return unreadable(error);
    checksum.add({part.data(), part.size()});
  }
  if (seal_of(std::move(checksum), path.filename().string(), bytes) != found)
    return damaged("is not as it was written: its checksum is another one");
  return {.bytes = bytes, .damage = {}};
}

}  // namespace accrue
