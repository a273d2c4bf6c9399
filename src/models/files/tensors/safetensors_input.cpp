#include "models/files/tensors/safetensors_input.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "core/checksum.h"
#include "core/open_file.h"

namespace accrue::models {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian and tensors are read in place");

constexpr std::int64_t length_bytes = 8;
constexpr std::int64_t largest_header_bytes = 100'000'000;  // the format's own limit

std::int64_t read_header_length(const InputFile& file) {
  if (file.bytes() < length_bytes)
    throw damaged(file.name(), {}, "at least 8 bytes", std::to_string(file.bytes()));
  std::uint64_t length = 0;
  file.read_at(0, &length, length_bytes);
  const std::int64_t limit = std::min(file.bytes() - length_bytes, largest_header_bytes);
  if (length > static_cast<std::uint64_t>(limit))
    throw damaged(file.name(), {},
                  "a header of at most " + std::to_string(limit) + " bytes (the file has " +
                      std::to_string(file.bytes()) + ')',
                  "a stated length of " + std::to_string(length));
  return static_cast<std::int64_t>(length);
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path, std::string format)
    : name_(path.string()), format_(std::move(format)) {
  OpenedFile opened = open_to_read(path);
  struct stat status {};
  if (opened && ::fstat(opened.file.get(), &status) != 0) opened.obstacle = std::strerror(errno);
  if (!opened.obstacle.empty()) throw unreadable(opened.obstacle);
  descriptor_ = std::move(opened.file);
  bytes_ = status.st_size;
}

Error InputFile::unreadable(std::string_view reason) const {
  return usage_error("read " + name_, "a readable " + format_ + " file", reason, "another path");
}

void InputFile::read_at(std::int64_t offset, void* out, std::int64_t count) const {
  auto* destination = static_cast<char*>(out);
  while (count > 0) {
    const ssize_t got =
        ::pread(descriptor_.get(), destination, static_cast<std::size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw runtime_error("read " + name_, "a file that stays as it is while it is read",
                          got < 0 ? std::strerror(errno) : "an end of file before its time",
                          "reading it again");
    destination += got;
    offset += got;
    count -= got;
  }
}

std::string InputFile::checksum_at(std::int64_t offset, std::int64_t count) const {
  constexpr std::int64_t piece_bytes = 1 << 18;
  Checksum checksum;
  std::string piece(static_cast<std::size_t>(std::min(count, piece_bytes)), '\0');
  for (const std::int64_t end = offset + count; offset < end; offset += std::ssize(piece)) {
    piece.resize(static_cast<std::size_t>(std::min(end - offset, piece_bytes)));
    read_at(offset, piece.data(), std::ssize(piece));
    checksum.add(piece);
  }
  return checksum.text();
}

FileHead read_head(const InputFile& file) {
  FileHead head;
  head.bytes.resize(static_cast<std::size_t>(length_bytes + read_header_length(file)));
  file.read_at(0, head.bytes.data(), head.data_offset());
  head.header = parse_header(std::string_view(head.bytes).substr(length_bytes), file.name());
  check_layout(head.header, file.bytes() - head.data_offset(), file.name());
  return head;
}

}  // namespace accrue::models
