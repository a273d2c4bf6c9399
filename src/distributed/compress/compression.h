#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "accrue/core/stored_tensor.h"
#include "accrue/distributed/compression.h"
#include "accrue/distributed/exchange.h"

namespace accrue::distributed {

struct CompressedSum {
  bool finite = true;           ///< the same value on every rank
  std::int64_t sent_bytes = 0;  ///< by this rank
};

/// Sums gradients over the ranks in fewer bytes, with error feedback: each rank keeps what it left
/// out of a window's sum and adds it to its next one (Seide et al., "1-bit stochastic gradient
/// descent", Interspeech 2014; Karimireddy et al., arXiv:1901.09847). So all sums so far equal the
/// gradients so far, except for what is kept. One object serves one flat range, and is constructed
/// with the same arguments on every rank. docs/notes/compression.md explains the choices.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// Replaces `values` (fp32, contiguous, one-dimensional, on the CPU) by their sum over the ranks
  /// of `exchange`, with the same bits on every rank. `unit` is the size of 1 in the mean gradient,
  /// 1 / total weight of the window over all ranks: what is kept of a window is converted to the
  /// next one's unit, so that windows of unequal weight do not distort it.
  ///
  /// If a value of any rank, or a sum, is not finite or too large for the code, no rank's sum is
  /// finite: `finite` is false on all of them, `values` has elements that are not finite, and what
  /// was kept before is kept unchanged, for the window that replaces this one.
  ///
  /// Throws a usage Error for tensors or a world other than it was made for, and for a unit that is
  /// not above 0; exceptions of `exchange` pass through, and then only `values` is changed.
  virtual CompressedSum sum(const at::Tensor& values, double unit, Exchange& exchange) = 0;

  /// The errors that all ranks keep together, in new tensors: a checkpoint's state, one set for any
  /// number of ranks. Without it a resumed run loses what one window left out. Collective; it costs
  /// a sum of `values`' elements in fp32.
  virtual NamedParameters state(Exchange& exchange) const = 0;
  /// Continues from the state() of any number of ranks. All ranks load it, each as `rank`: the kept
  /// errors are divided again, so their total continues, though not to the same bits. Throws a
  /// usage Error that names the first missing, extra or misshapen tensor; nothing is changed then.
  virtual void load_state(const StoredTensors& state, std::int64_t rank) = 0;
};

/// A compressor of `elements` over `world` ranks by bf16 (2 bytes an element) or int8 (blocks of
/// 256 with one scale, 1.016 bytes), rounded to nearest.
///
/// It takes the two steps of a ring: each rank sends shard r of its codes to rank r, which adds the
/// shards in order of rank in fp32, and sends the sum, encoded again, to all. Both encodings have
/// their error feedback (Tang et al., "DoubleSqueeze", arXiv:1905.05957). A rank sends 2 (world -
/// 1) / world * elements * bytes, keeps one fp32 value for each element and one for each of its
/// shard, and uses 3 times the codes as temporaries.
///
/// Throws a usage Error for Compression::none and powersgd (power_sgd.h).
std::unique_ptr<Compressor> make_block_compressor(Compression compression, std::int64_t elements,
                                                  std::int64_t world);

}  // namespace accrue::distributed
