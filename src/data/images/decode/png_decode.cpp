#include "data/images/decode/png_decode.h"

#include <spng.h>

#include <algorithm>
#include <array>
#include <memory>

#include "data/images/decode/counted_bytes.h"

namespace accrue::data {
namespace {

using Context = std::unique_ptr<spng_ctx, decltype(&spng_ctx_free)>;

/// The most bytes of a chunk other than pixels (text, profiles).
constexpr std::size_t kMostChunkBytes = std::size_t{16} << 20;

Context reader_of(std::span<const std::byte> encoded) {
  Context context(spng_ctx_new(0), &spng_ctx_free);
  spng_set_png_buffer(context.get(), encoded.data(), encoded.size());
  spng_set_chunk_limits(context.get(), kMostChunkBytes, kMostChunkBytes);
  // Pixels have to be as they were written; other chunks do not matter.
  spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_DISCARD);
  return context;
}

/// Decodes into `pixels`, which has the image's size in that format.
std::string decode_all(spng_ctx* context, int format, std::span<std::uint8_t> pixels) {
  int error = spng_decode_image(context, pixels.data(), pixels.size(), format, 0);
  // The checksum of the last pixels is compared when the chunks after them are read.
  if (error == 0) error = spng_decode_chunks(context);
  return error == 0 ? "" : spng_strerror(error);
}

/// Unpacks rows of numbers of `bits` each, the first in the highest bits of a byte; each row begins
/// at a new byte.
void unpack_numbers(std::span<const std::uint8_t> rows, std::size_t width, unsigned bits,
                    std::span<std::uint8_t> numbers) {
  const std::size_t in_byte = 8 / bits;
  const std::size_t row_bytes = (width + in_byte - 1) / in_byte;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t x = i % width;
    const unsigned byte = rows[i / width * row_bytes + x / in_byte];
    const auto below = static_cast<unsigned>(in_byte - 1 - x % in_byte) * bits;
    numbers[i] = static_cast<std::uint8_t>((byte >> below) & ((1U << bits) - 1));
  }
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
  const int error = spng_decoded_image_size(context.get(), SPNG_FMT_RGB8, &bytes);
  if (error != 0) return spng_strerror(error);
  if (bytes != interleaved.size()) return "another shape";
  return decode_all(context.get(), SPNG_FMT_RGB8, interleaved);
}

bool png_holds_numbers(std::span<const std::byte> encoded) {
  const Context context = reader_of(encoded);
  spng_ihdr header{};
  if (spng_get_ihdr(context.get(), &header) != 0) return false;
  return header.bit_depth <= 8 && (header.color_type == SPNG_COLOR_TYPE_GRAYSCALE ||
                                   header.color_type == SPNG_COLOR_TYPE_INDEXED);
}

std::string decode_png_numbers(std::span<const std::byte> encoded,
                               std::span<std::uint8_t> numbers) {
  const Context context = reader_of(encoded);
  spng_ihdr header{};
  std::size_t bytes = 0;
  int error = spng_get_ihdr(context.get(), &header);
  if (error == 0) error = spng_decoded_image_size(context.get(), SPNG_FMT_RAW, &bytes);
  if (error != 0) return spng_strerror(error);
  if (std::size_t{header.height} * header.width != numbers.size()) return "another shape";
  if (header.bit_depth == 8) return decode_all(context.get(), SPNG_FMT_RAW, numbers);
  CountedBytes rows(bytes);
  std::string problem = decode_all(context.get(), SPNG_FMT_RAW, rows);
  if (problem.empty()) unpack_numbers(rows, header.width, header.bit_depth, numbers);
  return problem;
}

}  // namespace accrue::data
