#include "data/images/decode/image_file.h"

#include <algorithm>
#include <span>
#include <utility>

#include "accrue/core/error.h"
#include "data/images/decode/image_mask.h"

namespace accrue::data {
namespace {

/// The headers of most images end within this many bytes.
constexpr std::int64_t most_header_bytes = 4096;

/// Calls `read` with the first bytes of a file, at most `most`.
template <class Read>
auto with_first_bytes(const FilePool& files, std::size_t file, std::int64_t most, Read read) {
  CountedBytes bytes(static_cast<std::size_t>(std::min(files.bytes(file), most)));
  files.read(file, 0, std::as_writable_bytes(std::span(bytes)));
  return read(std::as_bytes(std::span(bytes)));
}

/// Calls `read` with the whole file and with `image`.
template <class Read>
std::string decode_file(const FilePool& files, std::size_t file, DecodedImage& image, Read read) {
  return with_first_bytes(files, file, files.bytes(file),
                          [&](std::span<const std::byte> bytes) { return read(bytes, image); });
}

}  // namespace

std::optional<ImageHeader> image_file_header(const FilePool& files, std::size_t file) {
  const auto header = with_first_bytes(files, file, most_header_bytes, image_header_of);
  if (header || files.bytes(file) <= most_header_bytes) return header;
  constexpr std::int64_t most_bytes = std::int64_t{16} << 20;
  return with_first_bytes(files, file, most_bytes, image_header_of);
}

ImageHeader require_image_header(const FilePool& files, std::size_t file, const std::string& what) {
  if (const auto header = image_file_header(files, file)) return *header;
  const std::string other = other_image_file_format(files, file);
  throw usage_error(what, "images (PNG or JPEG)",
                    files.path(file).string() + ": none that can be read" +
                        (other.empty() ? "" : ", but " + other),
                    other.empty() ? "a glob that leaves it out"
                                  : "converting it to PNG, or a glob that leaves it out");
}

Decoding larger(Decoding a, Decoding b) { return a.bytes < b.bytes ? std::move(b) : std::move(a); }

Decoding decoding_of(const FilePool& files, std::size_t file, const ImageHeader& header) {
  return {.bytes = files.bytes(file) + header.decoding_bytes, .name = files.path(file).string()};
}

std::string other_image_file_format(const FilePool& files, std::size_t file) {
  return with_first_bytes(files, file, most_header_bytes, other_image_format);
}

std::string decode_image_file(const FilePool& files, std::size_t file, DecodedImage& image) {
  return decode_file(files, file, image, decode_image);
}

std::string why_no_mask_file(const FilePool& files, std::size_t file) {
  return with_first_bytes(files, file, most_header_bytes, why_no_mask);
}

std::string decode_mask_file(const FilePool& files, std::size_t file, DecodedImage& mask) {
  return decode_file(files, file, mask, decode_mask);
}

}  // namespace accrue::data
