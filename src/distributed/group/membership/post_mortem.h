#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accrue::distributed {

/// The state of a rank, as the others see it after a collective failed.
struct RankState {
  bool is_alive = true;         ///< its heartbeat goes on
  bool is_foreign = false;      ///< a process without this run's token wrote in its place
  std::int64_t collective = 0;  ///< number of the last one that it entered
  std::string doing;            ///< the purpose of that collective
};

/// The text that a rank writes about the collective that it enters.
std::string place_text(std::int64_t collective, std::string_view what);
/// Reads a text of place_text() into `state`. Any other text changes nothing: such a rank counts as
/// late in every collective.
void take_place(const std::string& text, RankState& state);

/// Who is missing in collective `number`, for people. A rank that is gone explains the failure
/// before one that is only late; the others wait for it. Empty if all are there.
std::string missing_ranks(const std::vector<RankState>& ranks, std::int64_t number);

/// Whether the result of missing_ranks(), on this rank or another, names a rank that is gone:
/// waiting longer would not have helped.
bool names_lost_rank(std::string_view reason);

}  // namespace accrue::distributed
