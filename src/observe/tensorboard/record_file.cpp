#include "observe/tensorboard/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/open_file.h"
#include "core/write_out.h"
#include "observe/tensorboard/crc32c.h"

namespace accrue::observe {
namespace {

template <typename Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

}  // namespace

std::string framed(std::string_view data) {
  const std::string length = little_endian<std::uint64_t>(data.size());
  std::string record = length + little_endian(masked_crc32c(length));
  record.append(data);
  return record + little_endian(masked_crc32c(data));
}

RecordFile::~RecordFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string RecordFile::create(const std::filesystem::path& file) {
  OpenedFile made = create_file(file, O_WRONLY | O_APPEND);
  descriptor_ = made.file.release();
  return made.obstacle;
}

std::string RecordFile::append(std::string_view data) {
  if (descriptor_ < 0) return "the file is not open";
  const std::string record = framed(data);
  const std::size_t written = write_out(descriptor_, record);
  const int error = errno;
  struct stat status {};
  const bool is_known = ::fstat(descriptor_, &status) == 0;
  if (written == record.size())
    return is_known && status.st_nlink == 0 ? "the file was removed" : "";
  const bool is_torn = written > 0;
  // Data after half a record cannot be read.
  if (is_torn &&
      (!is_known || ::ftruncate(descriptor_, status.st_size - static_cast<off_t>(written)) != 0))
    ::close(std::exchange(descriptor_, -1));
  return std::strerror(error);
}

}  // namespace accrue::observe
