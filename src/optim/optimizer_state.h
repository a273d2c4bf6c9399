#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "optim/groups.h"
#include "optim/kept_state.h"

namespace accrue::optim {

struct StateKind {
  std::string name;
  StateSign sign = StateSign::any;
};

/// All state that an optimizer keeps between steps: the number of steps, and the states of each
/// trained parameter. Allocated on construction, so that no step runs out of memory.
class OptimizerState {
 public:
  OptimizerState(const std::vector<Trained>& trained, std::vector<StateKind> kinds,
                 const StateOptions& options);

  /// A parameter's states, in order of the kinds.
  const std::vector<KeptState>& of(std::size_t parameter) const { return states_[parameter]; }
  /// The stream for the `ordinal`-th time that this state is written during the step after steps().
  RoundingStream rounding(std::size_t parameter, std::size_t kind, std::uint32_t ordinal) const;

  std::int64_t steps() const { return steps_; }
  void count_step() { ++steps_; }

  /// These implement Optimizer::state(), load_state() and state_bytes().
  NamedParameters tensors() const;
  /// Implements Optimizer::ranges(), also if everything is kept.
  std::vector<StateRange> ranges() const;
  void load(const StoredTensors& given);
  std::int64_t bytes() const;

 private:
  std::vector<Trained> trained_;
  std::vector<StateKind> kinds_;
  std::vector<std::vector<KeptState>> states_;  ///< by parameter, then by kind
  std::uint64_t seed_;
  std::int64_t steps_ = 0;
};

}  // namespace accrue::optim
