#include "data/images/image_file.h"

#include <algorithm>
#include <vector>

namespace accrue::data {
namespace {

using Bytes = std::vector<std::byte>;

/// The headers of most images end within so many bytes.
constexpr std::int64_t header_bytes = 4096;

Bytes first_bytes_of(const FilePool& files, std::size_t file, std::int64_t most_bytes) {
  Bytes bytes(static_cast<std::size_t>(std::min(files.bytes(file), most_bytes)));
  files.read(file, 0, bytes);
  return bytes;
}

}  // namespace

std::optional<ImageShape> image_file_shape(const FilePool& files, std::size_t file) {
  const auto shape = image_shape_of(first_bytes_of(files, file, header_bytes));
  if (shape || files.bytes(file) <= header_bytes) return shape;
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20;
  return image_shape_of(first_bytes_of(files, file, most_bytes));
}

std::string other_image_file_format(const FilePool& files, std::size_t file) {
  return other_image_format(first_bytes_of(files, file, header_bytes));
}

std::string decode_image_file(const FilePool& files, std::size_t file, DecodedImage& image) {
  return decode_image(first_bytes_of(files, file, files.bytes(file)), image);
}

}  // namespace accrue::data
