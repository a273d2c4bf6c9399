#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "accrue/core/observer.h"

namespace accrue::train {

/// Who is told of a run: observers that the program added and, on the rank that tells of it, the
/// run's sinks.
class RunObservers {
 public:
  void add(std::shared_ptr<Observer> observer) { added_.push_back(std::move(observer)); }
  /// From here on this rank tells of the run: `sinks`, too.
  void begin_to_tell(const std::vector<std::shared_ptr<Observer>>& sinks);

  void tell(std::span<const Event> events) const;
  /// Tells that steps after `step` do not count any more.
  void roll_back(std::int64_t step) const;
  /// Those that are told of steps: none before begin_to_tell().
  const std::vector<std::shared_ptr<Observer>>& of_steps() const { return of_steps_; }

 private:
  std::vector<std::shared_ptr<Observer>> added_;
  std::vector<std::shared_ptr<Observer>> of_steps_;
};

}  // namespace accrue::train
