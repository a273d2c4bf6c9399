#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/ledger.h"

namespace accrue::accum {

class GradientBuffer;
class SumShard;

/// The report of one rank about its share of a window.
struct RankStatement {
  double weight = 0;
  std::int64_t quarantined = 0;
  std::vector<double> figures = {};  ///< other numbers of this rank, as many on each rank
};

/// The totals of all ranks' shares of a window.
struct WindowTotals {
  double weight = 0;
  double loss_sum = 0;
  std::int64_t micro_batches = 0;  ///< committed ones
  std::int64_t quarantined = 0;
  std::vector<double> rank_sums;        ///< other numbers of each rank, added up over ranks
  std::vector<RankStatement> of_ranks;  ///< by rank
  double reduce_seconds = 0;            ///< from the first collective to the end of the last
  double exposed_seconds = 0;           ///< the part after the backward, which lengthens the step
  std::int64_t wire_bytes = 0;          ///< sent by this rank
};

/// The exchange of one window's sums between ranks; distributed::DeferredReduce implements it. Each
/// rank has a window with its share of the micro-batches, and all close together.
class Reduction {
 public:
  /// The share of a rank when it closes its window.
  struct Share {
    LedgerView ledger;
    std::string lost_reason = {};  ///< empty unless this rank's window was lost
  };
  /// The common result, the same on each rank.
  struct Outcome {
    enum class Verdict {
      whole,       ///< the buffer holds the sums of all ranks, or this rank's shard() of them
      again,       ///< each rank must compute its sums again, and call reduce() again
      dropped,     ///< no rank may step
      unfinished,  ///< as `whole`, but a rank has not done its share: no rank may step yet
    };
    Verdict verdict = Verdict::whole;
    double weight = 0;        ///< added up over all ranks
    std::string reason = {};  ///< why the verdict is not `whole`
    /// With `again`: losses are scaled by other factors than before, so their sums and weights
    /// change.
    bool rescaled = false;
  };

  virtual ~Reduction() = default;
  virtual Outcome reduce(GradientBuffer& buffer, const Share& share) = 0;
  /// The elements of the buffer that are sums of all ranks after `whole`; null if all are. Valid as
  /// long as the reduction exists.
  virtual const SumShard* shard() const { return nullptr; }
  /// Whether sums go to their owners during the window's passes, each as soon as it is final: then
  /// the buffer never has all sums of this rank, and the passes look for those that are not finite.
  virtual bool takes_sums_in_passes() const { return false; }
  /// Call before this rank's sums are computed again: ends operations in progress on them. An error
  /// is kept for the next reduce().
  virtual void withdraw() noexcept = 0;
};

}  // namespace accrue::accum
