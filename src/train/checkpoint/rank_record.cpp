#include "train/checkpoint/rank_record.h"

#include <algorithm>

namespace accrue::train {

bool have_one_size(const std::vector<RankRecord>& ranks) {
  return std::ranges::all_of(ranks, [&](const RankRecord& record) {
    return record.micro_batch == ranks.front().micro_batch;
  });
}

std::string sizes_in_words(const std::vector<RankRecord>& ranks) {
  std::string text = "each rank has micro-batches of its own plan's size, by rank ";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    text += (rank == 0 ? "" : ", ") + std::to_string(ranks[rank].micro_batch);
  return text;
}

}  // namespace accrue::train
