#include "distributed/group/membership/post_mortem.h"

#include <charconv>
#include <functional>
#include <system_error>

#include "distributed/group/membership/rank_list.h"

namespace accrue::distributed {
namespace {

using Test = std::function<bool(const RankState&)>;

std::string listed(const std::vector<RankState>& ranks, const Test& belongs) {
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankState& state = ranks[rank];
    if (!belongs(state)) continue;
    append_rank(text, static_cast<std::int64_t>(rank));
    if (!state.doing.empty()) text += " (last in: " + state.doing + ")";
  }
  return text;
}

constexpr std::string_view kNoLife = "no sign of life from ";

}  // namespace

std::string place_text(std::int64_t collective, std::string_view what) {
  return std::to_string(collective) + " " + std::string(what);
}

void take_place(const std::string& text, RankState& state) {
  const char* const end = text.data() + text.size();
  std::int64_t collective = 0;
  const auto [read, error] = std::from_chars(text.data(), end, collective);
  if (error != std::errc() || read == end || *read != ' ') return;
  state.collective = collective;
  state.doing.assign(read + 1, end);
}

bool names_lost_rank(std::string_view reason) { return reason.starts_with(kNoLife); }

std::string missing_ranks(const std::vector<RankState>& ranks, std::int64_t number) {
  const std::string gone = listed(ranks, [](const RankState& state) { return !state.is_alive; });
  if (!gone.empty()) return std::string(kNoLife) + gone;
  const std::string foreign =
      listed(ranks, [](const RankState& state) { return state.is_foreign; });
  if (!foreign.empty())
    return "words without this run's ACCRUE_RUN_TOKEN in the place of " + foreign;
  const std::string late =
      listed(ranks, [&](const RankState& state) { return state.collective < number; });
  return late.empty() ? "" : "nothing from " + late;
}

}  // namespace accrue::distributed
