#include "train/config/data_paths.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "core/words.h"

namespace accrue::train {
namespace {

constexpr std::string_view kWeighted = "data.train";
constexpr std::array<std::string_view, 3> kPaths{kWeighted, "data.val", "data.masks"};

}  // namespace

bool names_data_files(const std::string& key) {
  return std::ranges::find(kPaths, key) != kPaths.end();
}

std::string in_words(const ConfigDifference& difference) {
  return difference.key + " = " + difference.after + " (was " + difference.before + ")";
}

bool only_moves(const std::string& key, const Config& before, const Config& after) {
  if (!names_data_files(key)) return false;
  return key != kWeighted || before.data.weights == after.data.weights;
}

Config with_data_paths_of(Config config, const Config& from) {
  config.data.train = from.data.train;
  config.data.val = from.data.val;
  config.data.masks = from.data.masks;
  return config;
}

std::string moves_in_words(const Config& before, const Config& after) {
  std::vector<std::string> moves;
  for (const ConfigDifference& difference : differences(before, after))
    if (only_moves(difference.key, before, after)) moves.push_back(in_words(difference));
  return moves.empty() ? "" : listed(moves, "and");
}

}  // namespace accrue::train
