#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/data/source.h"

namespace accrue::data::testing {

/// An image of interleaved bytes, for writing.
struct Picture {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 3;
  std::vector<std::uint8_t> pixels;  ///< [H, W, C]
};

/// Pixels that differ between pictures, channels and positions.
Picture make_picture(std::int64_t height, std::int64_t width, std::int64_t channels,
                     std::uint64_t seed);
/// A smooth one, which JPEG preserves closely.
Picture make_gradient(std::int64_t height, std::int64_t width);

std::string png(const Picture& picture);
std::string jpeg(const Picture& picture);

/// The values of a source for it: [C, H, W], byte b being 2 * b / 255 - 1; alpha left out.
std::vector<double> levels_of(const Picture& picture);

/// idx files: big-endian words, then bytes.
std::string idx(std::vector<std::uint32_t> words, const std::string& bytes);
/// A record of CIFAR's binary version.
std::string cifar_record(std::vector<std::uint8_t> labels, std::uint64_t seed);

}  // namespace accrue::data::testing
