#include "observe/history/run_speed.h"

#include <algorithm>
#include <cmath>

namespace accrue::observe {
namespace {

using Column = std::vector<double>;

/// Amounts of work and the seconds that each took, by row; NaN if one is not known.
struct Work {
  Column amounts, seconds;
};

/// Tokens of a step are its speed times its seconds.
Work tokens_of(const StepTable& table, const Column& per_second, const Column& seconds) {
  Work work{Column(table.steps.size()), seconds};
  for (std::size_t row = 0; row < seconds.size(); ++row)
    work.amounts[row] = per_second[row] * seconds[row];
  return work;
}

std::optional<double> rate_without(const std::vector<std::int64_t>& left_out,
                                   const StepTable& table, const Work& work) {
  double amount = 0, seconds = 0;
  for (std::size_t row = 0; row < work.amounts.size(); ++row) {
    const bool is_told = work.amounts[row] >= 0 && work.seconds[row] > 0;
    if (!is_told || std::ranges::find(left_out, table.steps[row]) != left_out.end()) continue;
    amount += work.amounts[row];
    seconds += work.seconds[row];
  }
  return seconds > 0 ? std::optional(amount / seconds) : std::nullopt;
}

}  // namespace

std::vector<double> samples_by_step(const StepTable& table) {
  Column amounts(table.steps.size(), std::nan(""));
  const Column* const samples = table.column("samples");
  for (std::size_t row = 0; samples != nullptr && row < amounts.size(); ++row) {
    const bool is_first = row == 0 && table.steps[row] == 1;
    const bool follows = row > 0 && table.steps[row] == table.steps[row - 1] + 1;
    if (is_first || follows) amounts[row] = (*samples)[row] - (is_first ? 0 : (*samples)[row - 1]);
  }
  return amounts;
}

std::optional<Speed> speed_of(const StepTable& table, const std::vector<std::int64_t>& warm_ups) {
  const Column* seconds = table.column("seconds");
  const Column* per_second = table.column("tokens_per_second");
  const Column* samples = table.column("samples");
  if (seconds == nullptr || (per_second == nullptr && samples == nullptr)) return std::nullopt;
  const SpeedUnit unit = per_second != nullptr ? SpeedUnit::tokens : SpeedUnit::samples;
  const Work work = unit == SpeedUnit::tokens ? tokens_of(table, *per_second, *seconds)
                                              : Work{samples_by_step(table), *seconds};
  std::optional<double> rate = rate_without(warm_ups, table, work);
  if (!rate) rate = rate_without({}, table, work);
  return rate ? std::optional(Speed{*rate, unit}) : std::nullopt;
}

}  // namespace accrue::observe
