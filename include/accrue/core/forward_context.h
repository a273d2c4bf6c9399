#pragma once

#include <cstdint>
#include <vector>

namespace accrue {

/// Everything a forward pass may depend on besides parameters and inputs. A forward pass is a pure
/// function of (parameters, inputs, context), so a micro-batch can be replayed to the bit.
struct ForwardContext {
  bool training = true;
  std::uint64_t seed = 0;
  std::int64_t window = 0;
  /// One per row of the micro-batch: the draw's ordinal, epoch * N + position. Randomness is keyed
  /// by these, never by the row's place in the micro-batch.
  std::vector<std::int64_t> sample_ids;
};

}  // namespace accrue
