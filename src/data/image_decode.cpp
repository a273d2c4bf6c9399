#include "image_decode.h"

#include <limits>
#include <memory>

// Only what is documented to be read, from memory, and no image that would need gigabytes.
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_ONLY_PNM
#define STBI_MAX_DIMENSIONS 16384
#include <stb_image.h>

namespace accrue::data {
namespace {

const stbi_uc* bytes_of(std::span<const std::byte> encoded) {
  return reinterpret_cast<const stbi_uc*>(encoded.data());
}

bool is_too_large(std::span<const std::byte> encoded) {
  return encoded.size() > static_cast<std::size_t>(std::numeric_limits<int>::max());
}

/// Fewer bytes than its header promises, of formats whose decoder takes what is missing as it
/// comes: PNM and BMP.
bool is_cut_short(std::span<const std::byte> encoded) {
  const auto size = static_cast<std::int64_t>(encoded.size());
  const stbi_uc* const bytes = bytes_of(encoded);
  if (size >= 6 && bytes[0] == 'B' && bytes[1] == 'M') {
    const std::int64_t stated =
        bytes[2] | bytes[3] << 8 | bytes[4] << 16 | static_cast<std::int64_t>(bytes[5]) << 24;
    return size < stated;
  }
  stbi__context context;
  stbi__start_mem(&context, bytes, static_cast<int>(size));
  if (stbi__pnm_test(&context) == 0) return false;
  int width = 0, height = 0, components = 0;
  const int bits = stbi__pnm_info(&context, &width, &height, &components);
  if (bits == 0) return false;
  const std::int64_t pixels = std::int64_t{width} * height * components * (bits == 16 ? 2 : 1);
  return context.img_buffer_end - context.img_buffer < pixels;
}

std::int64_t channels_of(int components) { return components <= 2 ? 1 : 3; }

void to_planes(const stbi_uc* interleaved, const ImageShape& shape, std::span<std::uint8_t> out) {
  const auto area = static_cast<std::size_t>(shape.height * shape.width);
  const auto channels = static_cast<std::size_t>(shape.channels);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < area; ++i) out[c * area + i] = interleaved[i * channels + c];
}

}  // namespace

std::optional<ImageShape> image_shape_of(std::span<const std::byte> encoded) {
  int width = 0, height = 0, components = 0;
  if (is_too_large(encoded) ||
      stbi_info_from_memory(bytes_of(encoded), static_cast<int>(encoded.size()), &width, &height,
                            &components) == 0 ||
      width < 1 || height < 1)
    return std::nullopt;
  return ImageShape{channels_of(components), height, width};
}

std::string decode_image(std::span<const std::byte> encoded, const ImageShape& shape,
                         std::span<std::uint8_t> pixels) {
  if (is_too_large(encoded)) return "more than 2 GiB";
  if (is_cut_short(encoded)) return "the file is cut short";
  int width = 0, height = 0, components = 0;
  const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> decoded(
      stbi_load_from_memory(bytes_of(encoded), static_cast<int>(encoded.size()), &width, &height,
                            &components, static_cast<int>(shape.channels)),
      &stbi_image_free);
  if (!decoded) return stbi_failure_reason();
  if (ImageShape{channels_of(components), height, width} != shape) return "another shape";
  to_planes(decoded.get(), shape, pixels);
  return "";
}

}  // namespace accrue::data
