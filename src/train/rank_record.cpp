#include "rank_record.h"

#include <algorithm>

#include "ranks.h"

namespace accrue::train {

bool have_one_size(const std::vector<RankRecord>& ranks) {
  return std::ranges::all_of(ranks, [&](const RankRecord& record) {
    return record.micro_batch == ranks.front().micro_batch;
  });
}

std::vector<RankRecord> records_for(std::int64_t world, const std::vector<RankRecord>& kept,
                                    bool alike) {
  const auto ranks = static_cast<std::size_t>(world);
  if (kept.size() == ranks && (!alike || have_one_size(kept))) return kept;
  std::vector<MicroDecision> decisions;
  for (const RankRecord& record : kept)
    decisions.push_back({.samples = record.micro_batch, .recompute = record.recompute});
  const MicroDecision& common = most_frugal(decisions);
  return {ranks, {.micro_batch = common.samples, .recompute = common.recompute}};
}

std::string sizes_in_words(const std::vector<RankRecord>& ranks) {
  std::string text = "each rank has micro-batches of its own plan's size, by rank ";
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    text += (rank == 0 ? "" : ", ") + std::to_string(ranks[rank].micro_batch);
  return text;
}

}  // namespace accrue::train
