#pragma once

#include <cstdint>
#include <vector>

namespace accrue {

/// Where one sample lies in a micro-batch's rows: columns [begin, end) of `row`.
struct SampleSpan {
  std::int64_t sample_id = 0;
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Everything a forward pass may depend on besides parameters and inputs. A forward pass is a pure
/// function of (parameters, inputs, context), so a micro-batch can be replayed to the bit.
struct ForwardContext {
  bool training = true;
  std::uint64_t seed = 0;
  std::int64_t window = 0;
  /// One per sample of the micro-batch: the draw's ordinal, epoch * N + position. Randomness is
  /// keyed by these and the position within the sample, never by the place in the micro-batch.
  std::vector<std::int64_t> sample_ids;
  /// Of a packed micro-batch: where each sample lies, by row and column, without overlaps; what no
  /// span covers is padding. Empty: row b holds sample_ids[b] from column 0 on.
  std::vector<SampleSpan> spans;
};

}  // namespace accrue
