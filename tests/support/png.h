#pragma once

#include <cstdint>
#include <string>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#include <stb_image_write.h>

namespace accrue::testing {

/// A PNG file of rows of `channels` bytes per pixel, by another library than the reading one.
inline std::string png_of(int width, int height, int channels, const std::string& pixels) {
  std::string text;
  const auto append = [](void* to, void* data, int size) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data),
                                          static_cast<std::size_t>(size));
  };
  stbi_write_png_to_func(append, &text, width, height, channels, pixels.data(), width * channels);
  return text;
}

}  // namespace accrue::testing
