#include "data/images/image_file.h"

#include <algorithm>
#include <vector>

#include "accrue/core/error.h"
#include "data/images/image_mask.h"

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

ImageShape require_image_shape(const FilePool& files, std::size_t file, const std::string& what) {
  if (const auto shape = image_file_shape(files, file)) return *shape;
  const std::string other = other_image_file_format(files, file);
  throw usage_error(what, "images (PNG or JPEG)",
                    files.path(file).string() + ": none that can be read" +
                        (other.empty() ? "" : ", but " + other),
                    other.empty() ? "a glob that leaves it out"
                                  : "converting it to PNG, or a glob that leaves it out");
}

std::string other_image_file_format(const FilePool& files, std::size_t file) {
  return other_image_format(first_bytes_of(files, file, header_bytes));
}

std::string decode_image_file(const FilePool& files, std::size_t file, DecodedImage& image) {
  return decode_image(first_bytes_of(files, file, files.bytes(file)), image);
}

std::string why_no_mask_file(const FilePool& files, std::size_t file) {
  return why_no_mask(first_bytes_of(files, file, header_bytes));
}

std::string decode_mask_file(const FilePool& files, std::size_t file, DecodedImage& mask) {
  return decode_mask(first_bytes_of(files, file, files.bytes(file)), mask);
}

}  // namespace accrue::data
