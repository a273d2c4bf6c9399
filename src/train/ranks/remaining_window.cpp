#include "train/ranks/remaining_window.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/whole_number.h"

namespace accrue::train {
namespace {

std::string in_words(batch::Range range) {
  return "samples " + std::to_string(range.begin) + " to " + std::to_string(range.end);
}

/// The gaps between `done`, in order.
std::vector<batch::Range> gaps_in(batch::Range window, const RangesOfRanks& done) {
  std::vector<batch::Range> all;
  for (const std::vector<batch::Range>& of_rank : done)
    all.insert(all.end(), of_rank.begin(), of_rank.end());
  std::ranges::sort(all, {}, &batch::Range::begin);
  std::vector<batch::Range> gaps;
  std::int64_t reached = window.begin;
  for (const batch::Range& range : all) {
    if (range.begin < reached || range.end > window.end || range.size() < 1)
      throw runtime_error("go on in the middle of a window",
                          "parts of " + in_words(window) + " without overlap", in_words(range),
                          "the same build of accrue on all ranks");
    if (range.begin > reached) gaps.push_back({reached, range.begin});
    reached = range.end;
  }
  if (reached < window.end) gaps.push_back({reached, window.end});
  return gaps;
}

}  // namespace

RangesOfRanks divide_remaining_window(batch::Range window, const RangesOfRanks& done,
                                      std::int64_t micro_batch) {
  const std::vector<batch::Range> left = batch::split_again(gaps_in(window, done), micro_batch);
  const auto world = std::ssize(done);
  RangesOfRanks shares;
  auto next = left.begin();
  for (const std::int64_t count : batch::micro_batches_per_rank(std::ssize(left), 1, world)) {
    shares.emplace_back(next, next + count);
    next += count;
  }
  return shares;
}

std::vector<batch::Range> part_of_rank(std::size_t rank, batch::Range window,
                                       const RangesOfRanks& done,
                                       const std::vector<RankRecord>& records,
                                       const std::vector<double>& allowed) {
  const auto works = [&](std::size_t other) { return allowed.empty() || allowed[other] > 0; };
  std::vector<batch::Range> part = done[rank];
  if (!works(rank)) return part;
  // It does not matter here which rank did a finished part.
  RangesOfRanks of_workers;
  std::vector<batch::Range> of_others;
  std::size_t place = 0;
  for (std::size_t other = 0; other < done.size(); ++other) {
    if (other == rank) place = of_workers.size();
    if (works(other))
      of_workers.push_back(done[other]);
    else
      of_others.insert(of_others.end(), done[other].begin(), done[other].end());
  }
  of_workers.front().insert(of_workers.front().end(), of_others.begin(), of_others.end());
  const RankRecord& smallest = *std::ranges::min_element(records, {}, &RankRecord::micro_batch);
  const RangesOfRanks left = divide_remaining_window(window, of_workers, smallest.micro_batch);
  for (const batch::Range& range : batch::split_again(left[place], records[rank].micro_batch))
    part.push_back(range);
  return part;
}

std::string to_text(std::span<const batch::Range> ranges) {
  nlohmann::json list = nlohmann::json::array();
  for (const batch::Range& range : ranges) list.push_back({range.begin, range.end});
  return list.dump();
}

std::vector<batch::Range> ranges_from_text(const std::string& text) {
  const auto expect = [](bool holds) {
    if (!holds)
      throw runtime_error("go on in the middle of a window", "the ranges that a rank has done",
                          "something else", "the same build of accrue on all ranks");
  };
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  expect(list.is_array());
  std::vector<batch::Range> ranges;
  for (const nlohmann::json& range : list) {
    expect(range.is_array() && range.size() == 2);
    const auto begin = whole_number(range[0]), end = whole_number(range[1]);
    expect(begin.has_value() && end.has_value());
    ranges.push_back({*begin, *end});
  }
  return ranges;
}

}  // namespace accrue::train
