// image_golden CHANNELS HEIGHT WIDTH FILE...: what the library makes of image files, brought to
// that shape: each file's bytes [C, H, W] to stdout, one after the other.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "accrue/core/error.h"
#include "data/images/image_files.h"

namespace {

/// Back from [-1, 1] to the level of 255 it was.
char byte_of(float value) {
  return static_cast<char>(static_cast<unsigned char>((value + 1) / 2 * 255 + 0.5F));
}

}  // namespace

int main(int count, char** words) {
  if (count < 5) return 2;
  const accrue::data::ImageShape shape{std::atoi(words[1]), std::atoi(words[2]),
                                       std::atoi(words[3])};
  for (int i = 4; i < count; ++i) {
    const accrue::data::ReadImage image = accrue::data::read_image(words[i], shape);
    if (!image.failure.empty()) {
      std::fprintf(stderr, "%s: %s\n", words[i], image.failure.c_str());
      return 1;
    }
    const float* values = image.values.const_data_ptr<float>();
    for (std::int64_t at = 0; at < image.values.numel(); ++at) std::putchar(byte_of(values[at]));
  }
  return 0;
}
