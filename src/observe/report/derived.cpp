#include "observe/report/derived.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "observe/history/run_speed.h"

namespace accrue::observe {
namespace {

using Column = std::vector<double>;

constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

void add_if_any(StepTable& table, const char* name, Column column) {
  if (has_value(column)) table.columns[name] = std::move(column);
}

/// Clocks that are read one after the other differ a little: no part is below zero. A part that
/// was not measured stays NaN.
double at_least_nothing(double seconds) { return seconds < 0 ? 0 : seconds; }

/// A column that may be missing.
class OptionalColumn {
 public:
  OptionalColumn(const StepTable& table, const char* name) : column_(table.column(name)) {}
  bool is_there() const { return column_ != nullptr; }
  double at(std::size_t row) const { return column_ == nullptr ? not_measured : (*column_)[row]; }
  double at_or_none(std::size_t row) const { return std::isnan(at(row)) ? 0 : at(row); }

 private:
  const Column* column_;
};

Column quotient(const Column& numerator, const OptionalColumn& denominator) {
  Column result(numerator.size(), not_measured);
  for (std::size_t row = 0; row < result.size(); ++row)
    if (denominator.at(row) > 0) result[row] = numerator[row] / denominator.at(row);
  return result;
}

/// Waiting for data and the hidden reduction are part of the measured accumulation, the exposed
/// reduction is part of closing the window, which is in the optimizer's time. Most of a
/// checkpoint's time is in the step, where parameters wait for it; the time to begin it is not.
void add_time_parts(StepTable& table) {
  const OptionalColumn seconds(table, "seconds"), accumulation(table, "accumulation_seconds"),
      closing(table, "optimizer_seconds"), reduce(table, "reduce_seconds"),
      exposed(table, "reduce_exposed_seconds"), data(table, "data_seconds"),
      checkpoint(table, "checkpoint_seconds");
  const std::size_t rows = table.steps.size();
  const auto part = [&](const char* name, const auto& of_row) {
    Column column(rows);
    for (std::size_t row = 0; row < rows; ++row) column[row] = at_least_nothing(of_row(row));
    add_if_any(table, name, std::move(column));
  };
  part("part.compute", [&](std::size_t row) {
    return accumulation.at(row) - data.at_or_none(row) -
           (reduce.at_or_none(row) - exposed.at_or_none(row));
  });
  part("part.reduce_hidden", [&](std::size_t row) { return reduce.at(row) - exposed.at(row); });
  part("part.reduce_exposed", [&](std::size_t row) { return exposed.at(row); });
  part("part.optimizer",
       [&](std::size_t row) { return closing.at(row) - exposed.at_or_none(row); });
  part("part.data", [&](std::size_t row) { return data.at(row); });
  if (checkpoint.is_there())  // a step that waited for none shares the mean as well
    part("part.checkpoint", [&](std::size_t row) {
      return std::isnan(seconds.at(row)) ? not_measured : checkpoint.at_or_none(row);
    });
  part("part.rest", [&](std::size_t row) {
    return seconds.at(row) - accumulation.at(row) - closing.at(row) - checkpoint.at_or_none(row);
  });
}

void add_offload_wait_share(StepTable& table) {
  const std::vector<double>* const waited = table.column("offload_wait_seconds");
  if (waited == nullptr) return;
  add_if_any(table, "offload_wait_share", quotient(*waited, OptionalColumn(table, "seconds")));
}

}  // namespace

StepTable with_derived(StepTable table) {
  if (table.column("batch_samples") == nullptr)
    add_if_any(table, "batch_samples", samples_by_step(table));
  const std::vector<double>* samples = table.column("batch_samples");
  if (table.column("tokens_per_second") == nullptr && samples != nullptr)
    add_if_any(table, "samples_per_second", quotient(*samples, OptionalColumn(table, "seconds")));
  add_time_parts(table);
  add_offload_wait_share(table);
  return table;
}

}  // namespace accrue::observe
