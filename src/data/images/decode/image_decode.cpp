#include "data/images/decode/image_decode.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "data/images/decode/jpeg_decode.h"
#include "data/images/decode/png_decode.h"

namespace accrue::data {
namespace {

/// An image with a longer side could need gigabytes.
constexpr std::uint32_t kMostPixelsASide = 16384;

/// The first bytes of a common format that this version does not read.
struct Signature {
  std::string_view bytes, name;
};
constexpr std::array<Signature, 13> other_formats{
    {{"BM", "BMP"},
     {"P1", "PNM"},
     {"P2", "PNM"},
     {"P3", "PNM"},
     {"P4", "PNM"},
     {"P5", "PNM"},
     {"P6", "PNM"},
     {"GIF8", "GIF"},
     {"P7", "PAM"},
     {"RIFF", "WebP"},
     {"II*", "TIFF"},
     {"MM", "TIFF"},
     {"\xff\xd8", "JPEG that is damaged, or of neither grey nor RGB (CMYK)"}}};

/// A PNG is decoded as colour also if it is grey.
std::int64_t png_bytes(const ImageShape& shape) { return 3 * shape.height * shape.width; }

std::optional<ImageHeader> header_up_to(std::span<const std::byte> encoded, std::uint32_t side) {
  if (is_jpeg(encoded)) return jpeg_header(encoded, side);
  if (!is_png(encoded)) return std::nullopt;
  const std::optional<ImageShape> shape = png_shape(encoded, side);
  if (!shape) return std::nullopt;
  return ImageHeader{.shape = *shape, .decoding_bytes = png_bytes(*shape)};
}

/// Keeps the first of each three bytes: grey pixels decoded as colour have three equal ones.
void keep_one_of_three(CountedBytes& bytes) {
  for (std::size_t i = 0; i < bytes.size() / 3; ++i) bytes[i] = bytes[3 * i];
  bytes.resize(bytes.size() / 3);
}

}  // namespace

std::optional<ImageHeader> image_header_of(std::span<const std::byte> encoded) {
  return header_up_to(encoded, kMostPixelsASide);
}

std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded) {
  const std::optional<ImageHeader> header = image_header_of(encoded);
  if (!header) return std::nullopt;
  return header->shape;
}

std::string other_image_format(std::span<const std::byte> encoded) {
  constexpr std::uint32_t any_side = 0x7fffffff;
  if (const auto header = header_up_to(encoded, any_side)) {
    const std::int64_t side = std::max(header->shape.height, header->shape.width);
    if (side > kMostPixelsASide)
      return "one with a side of " + std::to_string(side) + " pixels (" +
             std::to_string(kMostPixelsASide) + " at most)";
  }
  const std::string_view bytes(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  for (const Signature& format : other_formats)
    if (bytes.starts_with(format.bytes)) return std::string(format.name);
  return "";
}

std::string decode_image(std::span<const std::byte> encoded, DecodedImage& image) {
  const std::optional<ImageShape> shape = image_shape_of(encoded);
  if (!shape) {
    const std::string other = other_image_format(encoded);
    return other.empty() ? "its header is damaged" : "it is " + other;
  }
  const bool png = is_png(encoded);
  image.shape = *shape;
  image.in_planes = false;
  resize_without_copy(
      image.bytes, static_cast<std::size_t>(png ? png_bytes(*shape)
                                                : shape->height * shape->width * shape->channels));
  std::string problem =
      png ? decode_png(encoded, image.bytes) : decode_jpeg(encoded, *shape, image.bytes);
  if (png && shape->channels == 1) keep_one_of_three(image.bytes);
  return problem;
}

}  // namespace accrue::data
