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

/// Who is told of a run: observers that the program added and, on the rank that tells of it, the
/// run's sinks.
class RunObservers {
 public:
  void add(std::shared_ptr<Observer> observer) { added_.push_back(std::move(observer)); }
  /// From here on this rank tells of the run: `sinks`, too.
  void begin_to_tell(const std::vector<std::shared_ptr<Observer>>& sinks);

  void tell(std::span<const Event> events) const;
  /// Tells what happens, also while nobody tells of the run, as the rank that did is lost: then the
  /// terminal hears it, as `progress` says, and the others when this rank begins to tell.
  void tell_or_keep(const Event& event, std::optional<observe::ProgressStyle> progress);
  /// Tells the run's `last` step where whoever told of it before has not: its `metrics` lack it.
  void tell_if_missing(const std::optional<StepReport>& last,
                       const std::filesystem::path& metrics) const;
  /// Tells that steps after `step` do not count any more.
  void roll_back(std::int64_t step) const;
  /// Those that are told of steps: none before begin_to_tell().
  const std::vector<std::shared_ptr<Observer>>& of_steps() const { return of_steps_; }

 private:
  std::vector<std::shared_ptr<Observer>> added_;
  std::vector<std::shared_ptr<Observer>> of_steps_;
  std::vector<Event> kept_;
};

}  // namespace accrue::train
