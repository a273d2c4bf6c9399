#include "train/window/window_leases.h"

#include <utility>

namespace accrue::train {
namespace {

std::vector<distributed::RankPace> rank_paces_of(const std::vector<RankRecord>& records) {
  std::vector<distributed::RankPace> rank_paces;
  for (const RankRecord& record : records)
    rank_paces.push_back(
        {.micro_batch = record.micro_batch, .seconds_per_sample = record.seconds_per_sample});
  return rank_paces;
}

batch::Range range_of(const distributed::Lease& lease, const batch::Range& window) {
  return {window.begin + lease.begin, window.begin + lease.begin + lease.count};
}

}  // namespace

WindowLeases::WindowLeases(std::int64_t rank, std::vector<RankRecord> records, bool by_speed)
    : records_(std::move(records)), shares_(rank, rank_paces_of(records_), by_speed) {}

batch::Range WindowLeases::share(batch::Range window) {
  const batch::Range mine = range_of(shares_.share(window.size()), window);
  ranges_.clear();
  for (const distributed::Lease& lease : shares_.shares())
    ranges_.push_back(range_of(lease, window));
  return mine;
}

std::vector<RankRecord> WindowLeases::records() const {
  std::vector<RankRecord> records = records_;
  for (std::size_t rank = 0; rank < records.size(); ++rank)
    records[rank].seconds_per_sample = shares_.seconds_per_sample(rank);
  return records;
}

}  // namespace accrue::train
