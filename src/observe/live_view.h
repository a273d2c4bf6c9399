#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "observe/curve.h"

namespace accrue::observe {

/// The values of a live view of a run. Absent or empty ones are not shown.
struct LiveStatus {
  std::string position;  ///< "120/200"
  double done = 0;       ///< share of the run, 0 to 1
  std::optional<double> seconds_left;
  std::optional<double> loss, eval_loss;
  Curve losses;
  std::string rate;  ///< "12.3 k tokens/s"
  std::optional<double> step_seconds;
  std::string micro_batch;            ///< within a step: "5/8"
  std::string batch, batch_in_short;  ///< RunStart's
  std::optional<std::int64_t> peak_bytes, budget_bytes;
  std::vector<std::int64_t> rank_samples;  ///< StepReport's
};

/// The area in which it is shown.
struct Canvas {
  int columns = 80;
  int rows = 24;
  bool utf8 = false;
  bool colours = false;
};

/// The view's lines: an empty one, then step, loss, speed, memory, batch and ranks. Each is
/// narrower than the canvas (the last column would wrap), and there are fewer than its rows. Parts
/// that do not fit are left out: of a line its last fields, of the lines the empty one and the last
/// ones.
std::vector<std::string> live_view(const LiveStatus& status, const Canvas& canvas);

}  // namespace accrue::observe
