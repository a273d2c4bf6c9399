#include "accrue/train/effective_batch.h"

#include <algorithm>

#include "core/words.h"
#include "train/window/window_leases.h"

namespace accrue::train {
namespace {

/// "3 x 8 + 6": a rank's full micro-batches and the short one.
std::string sum_of(const RankBatch& rank) {
  const std::int64_t full = rank.samples / rank.micro_batch;
  const std::int64_t rest = rank.samples % rank.micro_batch;
  std::string text;
  if (full > 1) text = std::to_string(full) + " x ";
  if (full > 0) text += std::to_string(rank.micro_batch);
  if (rest > 0 || full == 0) text += (text.empty() ? "" : " + ") + std::to_string(rest);
  return text;
}

/// The ranks' sums; adjacent ranks with equal shares are named once.
std::string sum_of_ranks(const std::vector<RankBatch>& ranks) {
  std::string text;
  for (std::size_t begin = 0; begin < ranks.size();) {
    std::size_t end = begin;
    while (end < ranks.size() && ranks[end] == ranks[begin]) ++end;
    text += (begin == 0 ? "" : " + ") + counted(static_cast<std::int64_t>(end - begin), "rank") +
            " x (" + sum_of(ranks[begin]) + ")";
    begin = end;
  }
  return text;
}

std::string samples_in_words(const EffectiveBatch& batch) {
  return (batch.samples_vary ? "about " : "") + digit_groups(batch.samples()) +
         (batch.samples() == 1 ? " sample" : " samples");
}

std::string total_of(const EffectiveBatch& batch) {
  const std::string samples = samples_in_words(batch);
  if (batch.tokens == 0) return samples;
  const std::string vary = batch.samples_vary ? "at most " : batch.tokens_vary ? "about " : "";
  return samples + ", " + vary + digit_groups(batch.tokens) + " tokens";
}

}  // namespace

std::int64_t EffectiveBatch::samples() const {
  std::int64_t sum = 0;
  for (const RankBatch& rank : by_rank) sum += rank.samples;
  return sum;
}

std::int64_t EffectiveBatch::micro_batch() const {
  return std::ranges::max_element(by_rank, {}, &RankBatch::micro_batch)->micro_batch;
}

std::int64_t EffectiveBatch::accumulation_steps() const {
  return std::ranges::max_element(by_rank, {}, &RankBatch::accumulation_steps)
      ->accumulation_steps();
}

bool EffectiveBatch::is_product() const {
  const RankBatch& first = by_rank.front();
  return first.samples == first.micro_batch * first.accumulation_steps() &&
         std::ranges::all_of(by_rank, [&](const RankBatch& rank) { return rank == first; });
}

std::int64_t EffectiveBatch::idle_ranks() const {
  return std::ranges::count(by_rank, 0, &RankBatch::samples);
}

EffectiveBatch divide_batch(std::int64_t samples, const std::vector<std::int64_t>& micro_batches) {
  std::vector<RankRecord> records;
  for (const std::int64_t micro_batch : micro_batches)
    records.push_back({.micro_batch = std::min(micro_batch, samples)});
  WindowLeases leases(0, records, /*by_speed=*/false);
  leases.share({0, samples});
  EffectiveBatch batch;
  for (std::size_t rank = 0; rank < records.size(); ++rank)
    batch.by_rank.push_back(
        {.samples = leases.shares()[rank].size(), .micro_batch = records[rank].micro_batch});
  return batch;
}

std::string in_words(const EffectiveBatch& batch) {
  const auto ranks = static_cast<std::int64_t>(batch.by_rank.size());
  const std::string steps = counted(batch.accumulation_steps(), "accumulation step");
  if (batch.is_product())
    return counted(batch.micro_batch(), "sample") + " x " + steps +
           (ranks > 1 ? " x " + std::to_string(ranks) + " ranks" : "") + " = " + total_of(batch);
  if (ranks == 1) return sum_of(batch.by_rank.front()) + " = " + total_of(batch) + " in " + steps;
  return sum_of_ranks(batch.by_rank) + " = " + total_of(batch) + " in " +
         (batch.accumulation_steps() > 1 ? "at most " : "") + steps;
}

std::string in_short(const EffectiveBatch& batch) {
  const std::string samples = samples_in_words(batch);
  if (!batch.is_product()) return samples;
  const std::size_t ranks = batch.by_rank.size();
  return std::to_string(batch.micro_batch()) + " x " + std::to_string(batch.accumulation_steps()) +
         (ranks > 1 ? " x " + std::to_string(ranks) : "") + " = " + samples;
}

}  // namespace accrue::train
