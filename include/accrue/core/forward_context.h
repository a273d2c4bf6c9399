#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::kernels {
class Operations;  // kernels/operations.h
}

namespace accrue {

/// The position of one sample in the rows of a micro-batch: columns [begin, end) of `row`.
struct SampleSpan {
  std::int64_t sample_id = 0;
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// All that a forward pass may depend on besides parameters and inputs. A forward pass is a pure
/// function of (parameters, inputs, context), so a micro-batch can be replayed with the same bits.
struct ForwardContext {
  bool training = true;
  std::uint64_t seed = 0;
  std::int64_t window = 0;
  /// One id per sample of the micro-batch: the ordinal of its draw, epoch * N + position. For pairs
  /// there is one id per sequence (batch::sequence_ids). Random numbers are keyed by the id and the
  /// position within the sample, never by the place in the micro-batch.
  std::vector<std::int64_t> sample_ids;
  /// Row and columns of each sample of a packed micro-batch, without overlaps. Columns outside all
  /// spans are padding. If empty, row b holds sample_ids[b] from column 0 on.
  std::vector<SampleSpan> spans;
  /// The operations that accrue's models call. Null selects accrue's kernels, which write gradients
  /// into slots. The object must outlive the forward pass and its backward.
  const kernels::Operations* operations = nullptr;
  /// The intermediate results that backward recomputes, so operations need not keep them.
  Recompute recompute = Recompute::none;
  /// True in a second run of the same pass during backward. State that training changes besides
  /// parameters (running statistics) was already updated and must stay unchanged.
  bool rerun = false;
  /// True if only the graph of the result is used and not its values. The last operation of the
  /// pass may then be left out (unread_result in kernels/recompute.h).
  bool result_unread = false;
  /// For a loss: no other loss reads the activations it receives, and they are not the inputs of
  /// the micro-batch. If the model does not read them again either, not even in a backward pass
  /// (only the model knows this), the loss may write their gradient into their memory.
  bool last_reader = false;
  /// For a loss: the gradient with which its sum will be differentiated. If it equals the
  /// gradient_scale passed to the loss, it need not be read from a device, which would force a
  /// synchronisation.
  std::optional<double> upstream = {};
};

}  // namespace accrue
