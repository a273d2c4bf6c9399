#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "accrue/core/observer.h"
#include "accrue/observe/progress_style.h"

namespace accrue::train {

/// The observers of a run: those that the program added and, on the rank that reports, the run's
/// sinks.
class RunObservers {
 public:
  void add(std::shared_ptr<Observer> observer) { added_.push_back(std::move(observer)); }
  /// From here on this rank reports the run, to `sinks` as well.
  void start_reporting(const std::vector<std::shared_ptr<Observer>>& sinks);

  void tell(std::span<const Event> events) const;
  /// Reports an event even if no rank reports the run because that one was lost: then to the
  /// terminal, as `progress` states, and to the others when this rank begins to report.
  void report_or_keep(const Event& event, std::optional<observe::ProgressStyle> progress);
  /// Reports the `last` step if the rank that reported before did not: its `metrics` lack it.
  void report_if_missing(const std::optional<StepReport>& last,
                         const std::filesystem::path& metrics) const;
  /// Reports that steps after `step` no longer count.
  void roll_back(std::int64_t step) const;
  /// The observers of steps: none before start_reporting().
  const std::vector<std::shared_ptr<Observer>>& of_steps() const { return of_steps_; }

 private:
  std::vector<std::shared_ptr<Observer>> added_;
  std::vector<std::shared_ptr<Observer>> of_steps_;
  std::vector<Event> kept_;
};

}  // namespace accrue::train
