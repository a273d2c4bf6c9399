#include "train/ranks/merged_middle.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "train/checkpoint/state_reader.h"

namespace accrue::train {
namespace {

constexpr const char* kKeep = "keep a window that ranks share";

Error contradiction(const std::string& expected, const std::string& received, std::size_t rank) {
  return runtime_error(kKeep, expected, received + " on rank " + std::to_string(rank),
                       "the same build of accrue on all ranks");
}

std::string samples_in_words(std::int64_t begin, std::int64_t end) {
  return "samples " + std::to_string(begin) + " to " + std::to_string(end);
}

/// A micro-batch of a rank.
struct Piece {
  std::size_t rank = 0;
  batch::Range range;
  const DoneMicroBatch* done = nullptr;  ///< null: it is still to be done
};

std::vector<Piece> pieces_of(const std::vector<WindowMiddle>& of_ranks) {
  std::vector<Piece> pieces;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const WindowMiddle& middle = of_ranks[rank];
    for (std::size_t i = 0; i < middle.micro_batches.size(); ++i)
      pieces.push_back({.rank = rank,
                        .range = middle.micro_batches[i],
                        .done = i < middle.done.size() ? &middle.done[i] : nullptr});
  }
  std::ranges::stable_sort(pieces, {}, [](const Piece& piece) { return piece.range.begin; });
  return pieces;
}

void require_whole(batch::Range window, const std::vector<Piece>& pieces) {
  const std::string expected =
      samples_in_words(window.begin, window.end) + " of the window, each on one rank";
  std::int64_t reached = window.begin;
  std::size_t last = 0;
  for (const Piece& piece : pieces) {
    const batch::Range range = piece.range;
    if (range.begin > reached)
      throw contradiction(expected, samples_in_words(range.begin, range.end) + " behind a gap",
                          piece.rank);
    if (range.begin < reached || range.size() < 1 || range.end > window.end)
      throw contradiction(expected, samples_in_words(range.begin, range.end), piece.rank);
    reached = range.end;
    last = piece.rank;
  }
  if (reached != window.end)
    throw contradiction(
        expected, "samples up to " + std::to_string(reached) + " alone, the last of them", last);
}

double weight_of(const WindowMiddle& middle) {
  double weight = 0;
  for (const DoneMicroBatch& done : middle.done)
    if (done.entry.status == MicroStatus::committed) weight += done.entry.micro.weight;
  return weight;
}

void require_same_sums(const WindowMiddle& middle, const WindowMiddle& first, std::size_t rank) {
  const auto require = [rank](bool holds, const char* what) {
    if (!holds) throw contradiction(std::string(what) + " of rank 0", "others", rank);
  };
  require(middle.window == first.window, "the window");
  require(middle.loss_scale == first.loss_scale, "the loss scale");
  require(middle.contributions == first.contributions, "the contributions to the sums");
  require(middle.units == first.units, "the fixed-point units");
  require(middle.noise_sums.size() == first.noise_sums.size(), "the sums of noise");
}

void require_weight(const WindowMiddle& middle, double weight, std::size_t rank) {
  const double told = weight_of(middle);
  if (told != weight)
    throw contradiction("micro-batches that weigh " + std::to_string(weight) + ", as its sums do",
                        std::to_string(told), rank);
}

void add(const WindowMiddle& of_rank, WindowMiddle& all) {
  all.tokens += of_rank.tokens;
  all.seconds = std::max(all.seconds, of_rank.seconds);
  std::ranges::transform(all.noise_sums, of_rank.noise_sums, all.noise_sums.begin(), std::plus<>());
  all.unreadable.insert(all.unreadable.end(), of_rank.unreadable.begin(), of_rank.unreadable.end());
}

}  // namespace

WindowMiddle merge_middles(batch::Range window, const std::vector<WindowMiddle>& of_ranks,
                           const std::vector<double>& weights) {
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    require_same_sums(of_ranks[rank], of_ranks.front(), rank);
    require_weight(of_ranks[rank], weights.at(rank), rank);
  }
  const std::vector<Piece> pieces = pieces_of(of_ranks);
  require_whole(window, pieces);
  WindowMiddle all = of_ranks.front();
  all.micro_batches.clear();
  all.done.clear();
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) add(of_ranks[rank], all);
  std::ranges::stable_sort(all.unreadable, {}, &batch::UnreadableSample::sample_id);
  for (const Piece& piece : pieces) {
    if (piece.done == nullptr) continue;
    all.micro_batches.push_back(piece.range);
    all.done.push_back(*piece.done);
    all.done.back().entry.micro.index = std::ssize(all.done) - 1;
  }
  for (const Piece& piece : pieces)
    if (piece.done == nullptr) all.micro_batches.push_back(piece.range);
  return all;
}

/// A reason may quote a file name that is not UTF-8.
std::string to_text(const WindowMiddle& middle) {
  return to_json(middle).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

WindowMiddle middle_from_text(const std::string& text, std::int64_t window, std::size_t rank) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  WindowMiddle middle;
  try {
    const std::string operation = kKeep;
    middle = share_middle_from_json({json, "middle.", operation}, window);
  } catch (const Error& error) {
    throw contradiction(error.expected(), error.received(), rank);
  }
  if (middle.done.size() > middle.micro_batches.size())
    throw contradiction("micro-batches of its share", "more that are done", rank);
  return middle;
}

}  // namespace accrue::train
