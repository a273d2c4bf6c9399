#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "accrue/core/step_report.h"
#include "train/watch/alarm.h"

namespace accrue::train {

/// The source of samples.
enum class InputKind {
  stream,  ///< tokens or bytes, one after the other in a file
  lines,   ///< JSON, a line each
  images,
};

/// Finds input that is slower than compute: over the last steps a tenth of the time or more was
/// spent waiting for samples, and more than a second in total.
class SlowInput {
 public:
  static constexpr std::size_t steps = 20;

  explicit SlowInput(InputKind kind) : kind_(kind) {}

  /// Call it with each step. Returns a remark with the suspected cause.
  std::optional<std::string> observe(const StepReport& step);

 private:
  struct Waited {
    double waiting = 0, seconds = 0;
  };

  InputKind kind_;
  std::deque<Waited> last_;
  Alarm alarm_{0.1, 0.05};
};

}  // namespace accrue::train
