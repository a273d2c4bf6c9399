#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue::models {

/// The first layers of a ResNet, which also select one of the two families of He et al.
/// (arXiv:1512.03385): for small images (section 4.2) or for ImageNet (section 4.1).
enum class Stem {
  conv3x3,  ///< a convolution that keeps the size
  conv7x7,  ///< one with stride 2 and a maximum pool: a quarter of each side is left
};
/// The words of model.stem.
inline constexpr auto stem_words =
    enum_words<Stem>({{Stem::conv3x3, "3x3"}, {Stem::conv7x7, "7x7"}});
constexpr std::string_view to_string(Stem stem) { return stem_words.of(stem); }

/// The stages after the stem.
struct ResNetStages {
  std::vector<std::int64_t> blocks;  ///< per stage; the channels double from one stage to the next
  /// Per block: 2 of 3x3, or 3 in a bottleneck: 1x1, 3x3, and 1x1 to four times the channels.
  std::int64_t convolutions = 2;

  /// Output channels of a block, as a multiple of the channels of its stage.
  std::int64_t expansion() const { return convolutions == 3 ? 4 : 1; }
};

/// Returns the stages of a network of 6n + 2 layers, at least 8, with a 3x3 stem, or of 18, 34, 50,
/// 101 or 152 layers with a 7x7 stem (table 1 of the paper); nothing if there is no such network.
inline std::optional<ResNetStages> resnet_stages(Stem stem, std::int64_t layers) {
  constexpr std::int64_t fewest_layers = 8, basic = 2, bottleneck = 3;
  if (stem == Stem::conv3x3) {
    if (layers < fewest_layers || (layers - 2) % 6 != 0) return std::nullopt;
    return ResNetStages{std::vector<std::int64_t>(3, (layers - 2) / 6), basic};
  }
  switch (layers) {
    case 18:
      return ResNetStages{{2, 2, 2, 2}, basic};
    case 34:
      return ResNetStages{{3, 4, 6, 3}, basic};
    case 50:
      return ResNetStages{{3, 4, 6, 3}, bottleneck};
    case 101:
      return ResNetStages{{3, 4, 23, 3}, bottleneck};
    case 152:
      return ResNetStages{{3, 8, 36, 3}, bottleneck};
    default:
      return std::nullopt;
  }
}

/// The default stem of a network with `layers` layers: that of the ImageNet network if there is
/// one. Networks of 50 and 152 layers are in both families; for small images the paper has
/// neither.
inline Stem usual_stem(std::int64_t layers) {
  return resnet_stages(Stem::conv7x7, layers) ? Stem::conv7x7 : Stem::conv3x3;
}

}  // namespace accrue::models
