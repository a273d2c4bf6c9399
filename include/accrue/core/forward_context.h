#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::kernels {
class Operations;  // kernels/operations.h
}

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
  /// One per sample of the micro-batch: the draw's ordinal, epoch * N + position; of pairs one per
  /// sequence (batch::sequence_ids). Randomness is keyed by these and the position within the
  /// sample, never by the place in the micro-batch.
  std::vector<std::int64_t> sample_ids;
  /// If each sample of a packed micro-batch lies, by row and column, without overlaps; what no
  /// span covers is padding. Empty: row b holds sample_ids[b] from column 0 on.
  std::vector<SampleSpan> spans;
  /// Who does the operations of accrue's models; null: accrue's kernels, whose gradients land in
  /// slots. What it points to outlives the pass and its backward.
  const kernels::Operations* operations = nullptr;
  /// What this pass's backward makes again: operations need not keep it.
  Recompute recompute = Recompute::none;
  /// This is a second run of the same pass, for backward's sake: what training moves beside
  /// parameters (running statistics) has moved already and stays.
  bool rerun = false;
  /// Nobody reads the values of the result, only its graph is wanted: whoever makes it may leave
  /// out its last operation (unread_result in kernels/recompute.h).
  bool result_unread = false;
  /// For a loss: no other loss reads the activations it is given, and they are not the
  /// micro-batch's inputs. If the model, too, never reads them again (not in a backward pass
  /// either), which only the model knows, the loss may leave their gradient in their memory.
  bool last_reader = false;
  /// For a loss: the gradient that its sum will be differentiated with. If it is the
  /// gradient_scale that the loss is told, it need not be read from a device, which would be to
  /// wait.
  std::optional<double> upstream = {};
};

}  // namespace accrue
