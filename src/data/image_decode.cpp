#include "image_decode.h"

#include <array>
#include <string_view>
#include <vector>

#include "jpeg_decode.h"
#include "png_decode.h"

namespace accrue::data {
namespace {

/// No image that would need gigabytes.
constexpr std::uint32_t kMostPixelsASide = 16384;

/// By their first bytes, formats that people have and this version does not read.
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

/// Pixels of `stride` bytes to planes of the first `channels` of each.
void to_planes(std::span<const std::uint8_t> interleaved, std::size_t stride,
               const ImageShape& shape, std::span<std::uint8_t> out) {
  const auto area = static_cast<std::size_t>(shape.height * shape.width);
  for (std::size_t c = 0; c < static_cast<std::size_t>(shape.channels); ++c)
    for (std::size_t i = 0; i < area; ++i) out[c * area + i] = interleaved[i * stride + c];
}

}  // namespace

std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded) {
  if (is_png(encoded)) return png_shape(encoded, kMostPixelsASide);
  if (is_jpeg(encoded)) return jpeg_shape(encoded, kMostPixelsASide);
  return std::nullopt;
}

std::string other_image_format(std::span<const std::byte> encoded) {
  const std::string_view bytes(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  for (const Signature& format : other_formats)
    if (bytes.starts_with(format.bytes)) return std::string(format.name);
  return "";
}

std::string decode_image(std::span<const std::byte> encoded, const ImageShape& shape,
                         std::span<std::uint8_t> pixels) {
  const std::optional<ImageShape> found = image_shape_of(encoded);
  if (!found) {
    const std::string other = other_image_format(encoded);
    return other.empty() ? "its header is damaged" : "it is " + other;
  }
  if (*found != shape) return "another shape";
  const std::size_t stride = is_png(encoded) ? 3 : static_cast<std::size_t>(shape.channels);
  std::vector<std::uint8_t> interleaved(static_cast<std::size_t>(shape.height * shape.width) *
                                        stride);
  std::string problem =
      is_png(encoded) ? decode_png(encoded, interleaved) : decode_jpeg(encoded, shape, interleaved);
  if (problem.empty()) to_planes(interleaved, stride, shape, pixels);
  return problem;
}

}  // namespace accrue::data
