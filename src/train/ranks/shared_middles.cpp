#include "train/ranks/shared_middles.h"

#include "train/ranks/merged_middle.h"
#include "train/ranks/remaining_window.h"

namespace accrue::train {

void SharedMiddles::closed(const std::vector<accum::RankStatement>& of_ranks) {
  ++closes_;
  weights_.clear();
  for (const accum::RankStatement& rank : of_ranks) weights_.push_back(rank.weight);
}

bool SharedMiddles::close_early(bool wishes) {
  const std::int64_t next = closes_ + 1;
  if (wishes) ranks_.announce(next);
  return ranks_.announced() >= next;
}

WindowMiddle SharedMiddles::gather_middle(const WindowMiddle& mine) {
  const std::vector<std::string> texts = ranks_.gather_long_texts(to_text(mine));
  std::vector<WindowMiddle> of_ranks;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    of_ranks.push_back(middle_from_text(texts[rank], mine.window, rank));
  return merge_middles(window_, of_ranks, weights_);
}

WindowMiddle SharedMiddles::part_of(const WindowMiddle& all) const {
  RangesOfRanks done(records_.size());
  done.front().assign(all.micro_batches.begin(), all.micro_batches.begin() + std::ssize(all.done));
  const auto rank = static_cast<std::size_t>(ranks_.rank());
  WindowMiddle part = is_first() ? all : nothing_done_of(all);
  part.micro_batch = records_[rank].micro_batch;
  part.micro_batches = part_of_rank(rank, window_, done, records_, allowed_);
  return part;
}

}  // namespace accrue::train
