#include "planted_images.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb_image_write.h>

#include "core/rng.h"

namespace accrue::data::testing {
namespace {

void append(void* text, void* data, int size) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(data),
                                          static_cast<std::size_t>(size));
}

}  // namespace

Picture make_picture(std::int64_t height, std::int64_t width, std::int64_t channels,
                     std::uint64_t seed) {
  Picture picture{height, width, channels, {}};
  for (std::int64_t i = 0; i < height * width * channels; ++i) {
    const std::uint64_t word = random_word(seed, 3, static_cast<std::uint64_t>(i));
    picture.pixels.push_back(static_cast<std::uint8_t>(word));
  }
  return picture;
}

Picture make_gradient(std::int64_t height, std::int64_t width) {
  Picture picture{height, width, 3, {}};
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (const std::int64_t level : {200 * x / width, 200 * y / height, std::int64_t{90}})
        picture.pixels.push_back(static_cast<std::uint8_t>(level));
  return picture;
}

std::string png(const Picture& p) {
  std::string text;
  const int w = static_cast<int>(p.width), h = static_cast<int>(p.height);
  const int c = static_cast<int>(p.channels);
  stbi_write_png_to_func(append, &text, w, h, c, p.pixels.data(), w * c);
  return text;
}

std::string jpeg(const Picture& p) {
  std::string text;
  stbi_write_jpg_to_func(append, &text, static_cast<int>(p.width), static_cast<int>(p.height),
                         static_cast<int>(p.channels), p.pixels.data(), 95);
  return text;
}

std::vector<double> levels_of(const Picture& p) {
  std::vector<double> levels;
  const std::int64_t kept = p.channels <= 2 ? 1 : 3;
  for (std::int64_t c = 0; c < kept; ++c)
    for (std::int64_t i = 0; i < p.height * p.width; ++i)
      levels.push_back(2.0 * p.pixels[static_cast<std::size_t>(i * p.channels + c)] / 255 - 1);
  return levels;
}

std::string idx(std::vector<std::uint32_t> words, const std::string& bytes) {
  std::string text;
  for (const std::uint32_t word : words)
    for (const int shift : {24, 16, 8, 0}) text.push_back(static_cast<char>(word >> shift));
  return text + bytes;
}

std::string cifar_record(std::vector<std::uint8_t> labels, std::uint64_t seed) {
  const Picture pixels = make_picture(32, 32, 3, seed);
  return std::string(labels.begin(), labels.end()) +
         std::string(pixels.pixels.begin(), pixels.pixels.end());
}

}  // namespace accrue::data::testing
