#include "data/text/samples/packed_lengths.h"

#include <string>
#include <utility>

namespace accrue::data {

PackedLengths lengths_by_positions(std::span<const std::int64_t> positions) {
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] == 0)
      lengths.push_back(1);
    else if (!lengths.empty() && positions[i] == lengths.back())
      ++lengths.back();
    else
      return LineProblem{
          R"("position_ids" that count from 0, and from 0 again where another sample begins)",
          "\"position_ids\" with " + std::to_string(positions[i]) + " at place " +
              std::to_string(i) + (i == 0 ? "" : ", behind " + std::to_string(positions[i - 1])),
          "0, 1, 2 ... of each sample, or leaving the key out"};
  }
  return lengths;
}

PackedLengths lengths_by_statement(std::span<const std::int64_t> lengths, std::int64_t tokens) {
  const auto problem = [tokens](std::string received) {
    return LineProblem{R"("seq_lengths" of 1 or more, whose sum is the number of input_ids)",
                       "\"seq_lengths\" " + std::move(received) + " beside " +
                           std::to_string(tokens) + " input_ids",
                       "the lengths of the samples that the line holds, or leaving the key out"};
  };
  std::int64_t left = tokens;
  for (const std::int64_t length : lengths) {
    if (length < 1) return problem("with " + std::to_string(length));
    if (length > left) return problem("of more tokens");
    left -= length;
  }
  if (left > 0) return problem("of " + std::to_string(tokens - left) + " tokens");
  return std::vector<std::int64_t>(lengths.begin(), lengths.end());
}

}  // namespace accrue::data
