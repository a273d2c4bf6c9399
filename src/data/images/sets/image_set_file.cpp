#include "data/images/sets/image_set_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>

#include "core/lower_case.h"
#include "core/open_file.h"
#include "data/files/suffix.h"
#include "data/images/sets/cifar_version.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;

/// Reads bytes of a file at given offsets.
class ProbedFile {
 public:
  explicit ProbedFile(const fs::path& path) : stream_(stream_to_read(path)) {
    std::error_code unreadable;
    const auto bytes = fs::file_size(path, unreadable);
    bytes_ = unreadable || !stream_.is_open() ? 0 : static_cast<std::int64_t>(bytes);
  }

  std::int64_t bytes() const { return bytes_; }  ///< 0: it cannot be read

  template <std::size_t count>
  std::array<std::uint8_t, count> at(std::int64_t offset) {
    std::array<char, count> read{};
    stream_.clear();
    stream_.seekg(offset);
    stream_.read(read.data(), count);
    std::array<std::uint8_t, count> bytes{};
    std::ranges::transform(read, bytes.begin(),
                           [](char c) { return static_cast<std::uint8_t>(c); });
    return bytes;
  }

 private:
  std::ifstream stream_;
  std::int64_t bytes_ = 0;
};

std::uint32_t big_endian(const std::array<std::uint8_t, 4>& bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | bytes[3];
}

/// Of bytes, in one dimension (labels) or three (images), as many as in the header.
bool is_idx(ProbedFile& file) {
  const std::uint32_t magic = big_endian(file.at<4>(0));
  if (magic != 0x801 && magic != 0x803) return false;
  const std::int64_t dimensions = magic & 0xff;
  // The product in a random header may not fit into an integer.
  double values = 1;
  for (std::int64_t i = 1; i <= dimensions; ++i) values *= big_endian(file.at<4>(4 * i));
  return static_cast<double>(4 + 4 * dimensions) + values == static_cast<double>(file.bytes());
}

/// How many of the first records have labels of that version; 0 if one has not, or the file does
/// not end with a record.
std::int64_t records_of(ProbedFile& file, const CifarVersion& version) {
  constexpr std::int64_t most_looked_at = 1024;
  constexpr std::uint8_t coarse_classes = 20;
  const std::int64_t record_bytes = version.record_bytes();
  if (file.bytes() == 0 || file.bytes() % record_bytes != 0) return 0;
  const std::int64_t records = std::min(most_looked_at, file.bytes() / record_bytes);
  for (std::int64_t record = 0; record < records; ++record) {
    const auto [first, second] = file.at<2>(record * record_bytes);
    const bool is_one = version.label_bytes == 1
                            ? first < version.classes
                            : first < coarse_classes && second < version.classes;
    if (!is_one) return 0;
  }
  return records;
}

/// Whether its name, or files next to it, are those of the data sets.
bool is_called_like_cifar(const fs::path& path) {
  const std::string name = lower_case(path.filename().string());
  std::error_code ignored;
  return name.starts_with("data_batch") || name.starts_with("test_batch") ||
         fs::exists(path.parent_path() / cifar10.names_file, ignored) ||
         fs::exists(path.parent_path() / cifar100.names_file, ignored);
}

/// A few records of token ids may look like labels by chance.
bool is_cifar(ProbedFile& file, const fs::path& path) {
  constexpr std::int64_t enough = 16;
  const std::int64_t records = std::max(records_of(file, cifar10), records_of(file, cifar100));
  return records >= enough || (records > 0 && is_called_like_cifar(path));
}

}  // namespace

bool is_image_set_file(const fs::path& path) {
  if (has_image_suffix(path)) return false;
  ProbedFile file(path);
  if (file.bytes() == 0) return false;
  return is_idx(file) || (suffix_of(path) == ".bin" && is_cifar(file, path));
}

}  // namespace accrue::data
