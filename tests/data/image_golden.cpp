// image_golden OUT CHANNELS HEIGHT WIDTH FILE...: what the library makes of image files, brought to
// that shape: each file's bytes [C, H, W] to OUT, one after the other. Runs requests
// (support/requests.h).
#include <fstream>

#include "accrue/core/error.h"
#include "data/images/image_files.h"
#include "support/requests.h"

namespace {

/// Back from [-1, 1] to the level of 255 it was.
char byte_of(float value) {
  return static_cast<char>(static_cast<unsigned char>((value + 1) / 2 * 255 + 0.5F));
}

void run(const std::vector<std::string>& words) {
  std::ofstream out(words.at(0), std::ios::binary);
  const accrue::data::ImageShape shape{std::stoi(words.at(1)), std::stoi(words.at(2)),
                                       std::stoi(words.at(3))};
  for (std::size_t i = 4; i < words.size(); ++i) {
    const accrue::data::ReadImage image = accrue::data::read_image(words[i], shape);
    if (!image.failure.empty())
      throw accrue::usage_error("image_golden", "an image", words[i] + ": " + image.failure,
                                "image_golden.py");
    const float* values = image.values.const_data_ptr<float>();
    for (std::int64_t at = 0; at < image.values.numel(); ++at) out.put(byte_of(values[at]));
  }
}

}  // namespace

int main(int argc, char** argv) { return accrue::testing::run_requests(argc, argv, run); }
