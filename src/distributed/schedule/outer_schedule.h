#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/stored_tensor.h"

namespace accrue::distributed {

/// Rounds of local steps: ranks train separately for `local_steps` optimizer steps, the inner
/// steps, and in each round every part of the parameters takes one outer step (outer_step.h).
struct OuterOptions {
  std::int64_t local_steps = 1;  ///< inner steps of a round, >= 1
  double lr = 1;                 ///< > 0
  double momentum = 0;           ///< Nesterov's, in [0, 1)
  std::int64_t parts = 1;        ///< parts of the parameters, each exchanged separately; >= 1
  std::int64_t delay = 0;        ///< inner steps between sending a part and merging it, >= 0
};

struct OuterRates {
  double lr = 1;
  double momentum = 0;
};

/// The outer step's default rates, by the length of a round alone: lr 1 and momentum 0, the mean,
/// for rounds of one step; momentum 0.7 with lr 0.5 for rounds of less than 16 steps, and with lr
/// 0.7 for longer ones. They were found by measurement (docs/notes/local_steps.md).
OuterRates usual_outer_rates(std::int64_t local_steps);

/// Throws a usage Error if an option is out of range, or parts + delay > local_steps: then parts
/// would have to share steps.
void require_valid(const OuterOptions& options);

/// Consecutive parameters, and their position in the flat list of all elements.
struct OuterPart {
  std::size_t first = 0, last = 0;  ///< the parameters [first, last)
  std::int64_t begin = 0, elements = 0;

  friend bool operator==(const OuterPart&, const OuterPart&) = default;
};

/// Divides parameters into `parts` parts of about equal size, each of whole parameters and none
/// empty. Throws a usage Error if there are fewer parameters than parts.
std::vector<OuterPart> divide_in_parts(const NamedParameters& parameters, std::int64_t parts);

/// When parts are sent and merged: within a round of H inner steps, part p of P is sent after inner
/// step ceil((p + 1) (H - delay) / P) and merged `delay` inner steps later. So each part has a
/// separate step, the last is merged at the end of the round, and nothing is in progress between
/// rounds. One part without delay is exchanged and merged after the round's last step. The parts'
/// staggering is that of Streaming DiLoCo (Douillard et al., arXiv:2501.18512).
class OuterSchedule {
 public:
  /// Throws a usage Error as require_valid() does.
  explicit OuterSchedule(const OuterOptions& options);

  /// Whether a round ends after this many inner steps of the run.
  bool ends_round(std::int64_t steps) const { return steps % local_steps_ == 0; }
  /// The part that is sent after this many inner steps of the run.
  std::optional<std::size_t> sent_after(std::int64_t steps) const;
  /// The part that is merged after this many inner steps of the run.
  std::optional<std::size_t> merged_after(std::int64_t steps) const;
  /// Whether ranks' parameters differ at the end of a round.
  bool leaves_differences() const { return parts_ > 1 || delay_ > 0; }

 private:
  std::int64_t step_of_round(std::int64_t steps) const { return (steps - 1) % local_steps_ + 1; }
  std::optional<std::size_t> part_sent_at(std::int64_t step_of_round) const;

  std::int64_t local_steps_, parts_, delay_;
};

}  // namespace accrue::distributed
