#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/ledger.h"

namespace accrue::accum {

class GradientBuffer;
class SumShard;

/// What one rank states of its share of a window.
struct RankStatement {
  double weight = 0;
  std::int64_t quarantined = 0;
  std::vector<double> figures = {};  ///< other numbers of its own, as many on each rank
};

/// What the ranks' shares of a window came to together.
struct WindowTotals {
  double weight = 0;
  double loss_sum = 0;
  std::int64_t micro_batches = 0;  ///< those committed
  std::int64_t quarantined = 0;
  std::vector<double> rank_sums;        ///< other numbers of each rank, added up over ranks
  std::vector<RankStatement> of_ranks;  ///< by rank
  double reduce_seconds = 0;            ///< from the first collective to the end of the last
  double exposed_seconds = 0;           ///< its part after the backward, which it adds to the step
  std::int64_t wire_bytes = 0;          ///< sent by this rank
};

/// What several ranks do with the sums of one window; distributed::DeferredReduce implements it.
/// Each rank has a window of its own with its share of the micro-batches, and they close together.
class Reduction {
 public:
  /// What a rank has when it closes its window.
  struct Share {
    LedgerView ledger;
    std::string lost_reason = {};  ///< empty unless this rank's window was lost
  };
  /// What all ranks come to: the same on each.
  struct Outcome {
    enum class Verdict {
      whole,       ///< the buffer holds the sums of all ranks, or this rank's shard() of them
      again,       ///< each rank is to make its sums anew, and to come back
      dropped,     ///< no rank is to step
      unfinished,  ///< as `whole`, but a rank has not done its share: no rank is to step yet
    };
    Verdict verdict = Verdict::whole;
    double weight = 0;        ///< added up over all ranks
    std::string reason = {};  ///< why it is not `whole`
    /// With `again`: losses are scaled by other factors than before, so their sums and weights
    /// change.
    bool rescaled = false;
  };

  virtual ~Reduction() = default;
  virtual Outcome reduce(GradientBuffer& buffer, const Share& share) = 0;
  /// Says which elements of the buffer are sums of all ranks after `whole`; null if all are. It
  /// lives as long as the reduction.
  virtual const SumShard* shard() const { return nullptr; }
  /// This rank's sums are about to be made anew: ends what is under way on them. An error is kept
  /// for the next reduce().
  virtual void withdraw() noexcept = 0;
};

}  // namespace accrue::accum
