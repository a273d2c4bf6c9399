// image_golden OUT CHANNELS HEIGHT WIDTH FILE...: how the library reads image files, resized to
// that shape: each file's bytes [C, H, W] to OUT, one after the other.
//
// image_golden classes OUT GLOB...: the classes of single-coloured images, as JSON to OUT: their
// names, for each colour (in hexadecimal digits) its class, and the remarks.
//
// Runs requests (support/requests.h).
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "data/images/sets/image_files.h"
#include "support/requests.h"

namespace {

using Words = std::vector<std::string>;

/// Back from [-1, 1] to the level of 255 it was.
unsigned char byte_of(float value) {
  return static_cast<unsigned char>((value + 1) / 2 * 255 + 0.5F);
}

void write_pixels(const Words& words) {
  std::ofstream out(words.at(0), std::ios::binary);
  const accrue::data::ImageShape shape{std::stoi(words.at(1)), std::stoi(words.at(2)),
                                       std::stoi(words.at(3))};
  for (std::size_t i = 4; i < words.size(); ++i) {
    const accrue::data::ReadImage image = accrue::data::read_image(words[i], shape);
    if (!image.failure.empty())
      throw accrue::usage_error("image_golden", "an image", words[i] + ": " + image.failure,
                                "image_golden.py");
    const float* values = image.values.const_data_ptr<float>();
    for (std::int64_t at = 0; at < image.values.numel(); ++at)
      out.put(static_cast<char>(byte_of(values[at])));
  }
}

/// The colour of the first pixel, "0a1b2c".
std::string colour_of(const accrue::batch::MicroBatch& micro) {
  std::string colour;
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x",
                  byte_of(micro.inputs[0][channel][0][0].item<float>()));
    colour += digits;
  }
  return colour;
}

void write_classes(const Words& words) {
  const auto source =
      accrue::data::open_source({.globs = {words.begin() + 2, words.end()}}, "data.train");
  nlohmann::json out{{"classes", source->classes()}, {"remarks", source->remarks()}};
  for (std::int64_t i = 0; i < source->size(); ++i) {
    const accrue::batch::MicroBatch micro = source->fetch(std::span(&i, 1));
    out["labels"][colour_of(micro)] = micro.targets.item<std::int64_t>();
  }
  std::ofstream(words.at(1)) << out.dump();
}

void run(const Words& words) {
  words.at(0) == "classes" ? write_classes(words) : write_pixels(words);
}

}  // namespace

int main(int argc, char** argv) { return accrue::testing::run_requests(argc, argv, run); }
