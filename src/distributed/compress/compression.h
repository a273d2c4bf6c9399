#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "accrue/core/stored_tensor.h"
#include "accrue/distributed/compression.h"
#include "accrue/distributed/exchange.h"

namespace accrue::distributed {

struct CompressedSum {
  bool finite = true;           ///< the same answer on every rank
  std::int64_t sent_bytes = 0;  ///< what this rank sent
};

/// Sums gradients over the ranks in fewer bytes, with error feedback: what a window's sum leaves
/// out is kept by the rank that left it out and added to its next one (Seide et al., "1-bit
/// stochastic gradient descent", Interspeech 2014; Karimireddy et al., arXiv:1901.09847). So all
/// that was summed so far equals the gradients so far, less what is kept. One object serves one
/// flat range, and is made alike on every rank. docs/notes/compression.md has the choices.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// Replaces `values` (fp32, contiguous, one-dimensional, on the CPU) by their sum over the ranks
  /// of `exchange`, with the same bits on every rank. `unit` is what 1 in them is in the mean
  /// gradient, 1 / total weight of the window over all ranks: what is kept of a window is converted
  /// to the next one's, so that windows of unequal weight do not distort it.
  ///
  /// If a value of any rank, or a sum, is not finite or too large for the code, no rank's sum
  /// is: `finite` is false on all of them, `values` has elements that are not finite, and what was
  /// kept before is kept unchanged, for the window that takes this one's place.
  ///
  /// Throws a usage Error for other tensors or another world than it was made for, and a unit that
  /// is not above 0; what `exchange` throws goes through, and nothing but `values` is changed then.
  virtual CompressedSum sum(const at::Tensor& values, double unit, Exchange& exchange) = 0;

  /// What all ranks keep together, in new tensors: a checkpoint's state, one set whatever the
  /// number of ranks. Without it a resumed run loses what one window left out. All ranks call it,
  /// and it costs a sum of `values`' elements in fp32.
  virtual NamedParameters state(Exchange& exchange) const = 0;
  /// Goes on from the state() of any number of ranks, which all ranks load, each as `rank`: what
  /// was kept is divided anew, so the total goes on, if not to the same bits. Throws a usage Error
  /// that names the first missing, extra or misshapen tensor; nothing is changed then.
  virtual void load_state(const StoredTensors& state, std::int64_t rank) = 0;
};

/// A compressor of `elements` over `world` ranks by bf16 (2 bytes an element) or int8 (blocks of
/// 256 with one scale, 1.016 bytes), rounded to nearest.
///
/// It takes the two steps of a ring: each rank sends shard r of its codes to rank r, which adds the
/// shards in order of rank in fp32, and sends the sum, coded again, to all. Both codings have their
/// error feedback (Tang et al., "DoubleSqueeze", arXiv:1905.05957). A rank sends 2 (world - 1) /
/// world * elements * bytes, keeps one fp32 value for each element and one for each of its shard,
/// and takes 3 times the codes as temporaries.
///
/// Throws a usage Error for Compression::none and powersgd (power_sgd.h).
std::unique_ptr<Compressor> make_block_compressor(Compression compression, std::int64_t elements,
                                                  std::int64_t world);

}  // namespace accrue::distributed
