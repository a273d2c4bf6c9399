// The messages between ranks while their group is renewed.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "distributed/group/handshake.h"
#include "distributed/group/membership/members.h"
#include "distributed/group/membership/post_mortem.h"
#include "distributed/group/network/addresses.h"
#include "distributed/reduce/status_row.h"
#include "distributed/schedule/window_shares.h"
#include "fuzz_targets.h"
#include "scratch.h"
#include "train/ranks/event_texts.h"
#include "train/ranks/merged_middle.h"
#include "train/ranks/state_parts.h"

namespace accrue::fuzz {
namespace {

/// As many whole numbers as the bytes allow.
template <class Number>
std::vector<Number> numbers_of(Input input) {
  std::vector<Number> numbers(input.size() / sizeof(Number));
  if (!numbers.empty()) std::memcpy(numbers.data(), input.data(), numbers.size() * sizeof(Number));
  return numbers;
}

/// Expects that the transfers bring each rank everything that it wants, from a rank that has it.
void expect_all_is_brought(const std::vector<train::RankHoldings>& ranks,
                           const train::Division& division) {
  std::vector<std::vector<std::int64_t>> brought(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (const ElementRange& range : ranks[rank].wanted) brought[rank].push_back(range.begin);
  for (const train::StateTransfer& transfer : division.transfers) {
    const auto has = [&](const train::StateParts& parts) {
      if (parts.step != division.step) return false;
      const ElementRange& range = parts.ranges.at(transfer.tensor);
      return range.begin <= transfer.elements.begin &&
             transfer.elements.begin + transfer.elements.elements <= range.begin + range.elements;
    };
    const train::RankHoldings& giver = ranks.at(static_cast<std::size_t>(transfer.from));
    expect(has(giver.own) || has(giver.replica), "who gives a part has it");
    std::int64_t& next = brought.at(static_cast<std::size_t>(transfer.to)).at(transfer.tensor);
    expect(transfer.elements.begin == next, "parts follow each other");
    next += transfer.elements.elements;
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    for (std::size_t tensor = 0; tensor < ranks[rank].wanted.size(); ++tensor) {
      const ElementRange& range = ranks[rank].wanted[tensor];
      expect(brought[rank][tensor] == range.begin + range.elements, "all that is wanted comes");
    }
}

}  // namespace

/// The store's entry about the collective that a rank entered, and about the place of its lifeline.
void fuzz_rank_place(Input input) {
  const std::string text(text_of(input));
  distributed::RankState state, again;
  distributed::take_place(text, state);
  distributed::take_place(distributed::place_text(state.collective, state.doing), again);
  expect(again.collective == state.collective && again.doing == state.doing, "a place comes back");
  distributed::missing_ranks({state, {}}, 1);
  distributed::names_lost_rank(text);
  if (const auto place = distributed::place_from_text(text)) {
    const auto back = distributed::place_from_text(distributed::to_text(*place));
    expect(back && back->host == place->host && back->port == place->port,
           "a lifeline's place comes back");
  }
}

/// The facts that a rank sends when it meets the others.
void fuzz_facts(Input input) {
  const distributed::Facts facts = distributed::facts_from_text(std::string(text_of(input)));
  expect(distributed::facts_from_text(distributed::to_text(facts)) == facts, "facts come back");
  expect(distributed::differing_facts({facts, facts}).empty() || !facts.empty(),
         "nothing differs from itself");
  distributed::differing_facts({facts, {}});
}

/// The events that a rank noted in a window.
void fuzz_rank_events(Input input) {
  const std::vector<Event> events = train::events_from_text(std::string(text_of(input)));
  const std::vector<Event> back = train::events_from_text(train::to_text(events));
  expect(std::ranges::equal(events, back,
                            [](const Event& a, const Event& b) {
                              return a.name == b.name && a.reason == b.reason && a.step == b.step;
                            }),
         "events come back");
}

/// The done part of a rank's share of window 7, and the merged result if it is the only rank.
void fuzz_rank_middle(Input input) {
  const train::WindowMiddle middle = train::middle_from_text(std::string(text_of(input)), 7, 1);
  const std::string text = train::to_text(middle);
  expect(train::to_text(train::middle_from_text(text, 7, 1)) == text, "a middle comes back");
  double weight = 0;
  for (const train::DoneMicroBatch& done : middle.done)
    if (done.entry.status == MicroStatus::committed) weight += done.entry.micro.weight;
  batch::Range window;
  if (!middle.micro_batches.empty())
    window = {middle.micro_batches.front().begin, middle.micro_batches.back().end};
  const train::WindowMiddle all = train::merge_middles(window, {middle}, {weight});
  expect(all.done.size() == middle.done.size(), "what is done stays done");
  train::merge_middles(window, {middle, middle}, {weight, weight});
  expect(window.size() == 0, "no sample has two ranks");
}

/// A row for two ranks, with two figures each, a loss, and three slots with units.
void fuzz_status_row(Input input) {
  const distributed::RankStatus like{
      .figures = {0, 0}, .loss_sums = {0}, .contributions = {0, 0, 0}, .units = {0, 0, 0}};
  const std::int64_t length = distributed::to_row(like).numel();
  std::vector<double> numbers = numbers_of<double>(input);
  numbers.resize(2 * static_cast<std::size_t>(length), 0);
  const at::Tensor rows = at::from_blob(numbers.data(), {2, length}, at::kDouble);
  const std::vector<distributed::RankStatus> ranks{distributed::from_row(rows[0], like),
                                                   distributed::from_row(rows[1], like)};
  const distributed::Agreed agreed = distributed::agree(ranks);
  distributed::WindowShares shares(0, {{}, {}}, /*by_speed=*/true);
  for (int window = 0; window < 5; ++window) {
    shares.share(0);
    shares.observe(agreed.totals.of_ranks);
  }
  const distributed::Lease first = shares.share(64);
  expect(first.begin == 0 && first.count + shares.shares()[1].count == 64,
         "each sample has one rank, whatever speeds ranks tell");
}

/// The holdings and wishes of three ranks for two tensors.
void fuzz_holdings(Input input) {
  constexpr std::size_t length = 15, world = 3;
  std::vector<std::int64_t> numbers = numbers_of<std::int64_t>(input);
  numbers.resize(length * world, 0);
  std::vector<train::RankHoldings> ranks;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(rank * length);
    ranks.push_back(train::holdings_from_numbers({begin, begin + length}));
    expect(train::holdings_from_numbers(train::to_numbers(ranks.back())) == ranks.back(),
           "holdings come back");
  }
  if (const auto division = train::plan_redistribution(ranks))
    expect_all_is_brought(ranks, *division);
}

/// The bytes of a pace and a grain for each rank, then the units of a window.
void fuzz_leases(Input input) {
  if (input.empty()) return;
  const std::int64_t units = input[0] * 16;
  const std::vector<double> told = numbers_of<double>(input.subspan(1));
  std::vector<distributed::Worker> workers;
  for (std::size_t at = 0; at + 2 < told.size() && at < 48; at += 3)
    workers.push_back({.rank = static_cast<std::int64_t>(workers.size()),
                       .pace = {told[at], told[at + 1]},
                       .grain = 1 + static_cast<std::int64_t>(input[1 + 8 * (at + 2)] % 40),
                       .takes_part = (input[2 + 8 * (at + 2)] & 7) != 0});
  const distributed::Division division = distributed::divide(units, workers);
  std::int64_t next = 0;
  for (const distributed::Lease& lease : division.leases) {
    expect(lease.begin == next && lease.count >= 0, "leases follow each other");
    next += lease.count;
  }
  expect(next == units, "each unit is leased once");
}

}  // namespace accrue::fuzz
