#include "data/images/png_decode.h"

#include <spng.h>

#include <algorithm>
#include <array>
#include <memory>

namespace accrue::data {
namespace {

using Context = std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)>;

/// The most bytes of a chunk beside the pixels (text, profiles).
constexpr std::size_t kMostChunkBytes = std::size_t{16} << 20;

Context reader_of(std::span<const std::byte> encoded) {
  Context context(spng_ctx_new(0), &spng_ctx_free);
  spng_set_png_buffer(context.get(), encoded.data(), encoded.size());
  spng_set_chunk_limits(context.get(), kMostChunkBytes, kMostChunkBytes);
  // Pixels have to be as they were written; what is said beside them does not matter.
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  return context;
}

}  // namespace

bool is_png(std::span<const std::byte> encoded) {
  constexpr std::array<unsigned char, 8> signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return encoded.size() >= signature.size() &&
         std::equal(signature.begin(), signature.end(), encoded.begin(),
                    [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

std::optional<ImageShape> png_shape(std::span<const std::byte> encoded,
                                    std::uint32_t most_pixels_a_side) {
  const Context context = reader_of(encoded);
  spng_set_image_limits(context.get(), most_pixels_a_side, most_pixels_a_side);
  spng_ihdr header{};
  if (spng_get_ihdr(context.get(), &header) != 0) return std::nullopt;
  const bool is_grey = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                       header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  return ImageShape{is_grey ? 1 : 3, header.height, header.width};
}

std::string decode_png(std::span<const std::byte> encoded, std::span<std::uint8_t> interleaved) {
  const Context context = reader_of(encoded);
  std::size_t bytes = 0;
  int error = spng_decoded_image_size(context.get(), SPNG_FMT_RGB8, &bytes);
  if (error == 0 && bytes != interleaved.size()) return "another shape";
  if (error == 0)
    error =
        spng_decode_image(context.get(), interleaved.data(), interleaved.size(), SPNG_FMT_RGB8, 0);
  // The checksum of the last pixels is compared when what comes after them is read.
  if (error == 0) error = spng_decode_chunks(context.get());
  return error == 0 ? "" : spng_strerror(error);
}

}  // namespace accrue::data
