#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/accum/compression.h"
#include "accrue/accum/reduction.h"
#include "accrue/core/rank_slice.h"

namespace accrue::accum {

/// How ranks share the windows of an Accumulator: a config's dist.reduce, compress and shares.
struct SharingOptions {
  /// Gradients travel during the backward of a window's last micro-batch, if the window knows
  /// which that is, and not after it. Where several accumulators share a group they travel after.
  bool overlap = true;
  /// For sums in fp32, which are not exact then.
  Compression compress = Compression::none;
  /// share() follows the speeds of the ranks, as they are measured.
  bool by_speed = true;
};

/// What one rank runs of a window: samples (or tokens) [begin, end) of it.
struct WindowShare {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const WindowShare&) const = default;
};

/// The sums of an accumulator's windows, shared by the ranks of a group. All ranks make the same
/// calls in the same order, but for begin_micro_batch() and fail().
class SharedSums : public Reduction {
 public:
  /// Which of how many ranks this is.
  virtual RankSlice place() const = 0;
  /// This rank's share of a window of `size`, by the speeds so far. From here to reduce() its work
  /// is timed.
  virtual WindowShare share(std::int64_t size) = 0;
  /// To be called before each backward; `is_last` says that it is the window's last on this rank.
  virtual void begin_micro_batch(bool is_last) = 0;

  /// Numbers of one rank that all get to know at a window's close; as many on each.
  using Figures = std::vector<double>;
  /// Asked for this rank's at each attempt to close.
  using TellFigures = std::function<Figures()>;
  /// Told all ranks' figures, by rank. What it throws, all throw.
  using OnFigures = std::function<void(const std::vector<Figures>& by_rank)>;
  virtual void set_figures(TellFigures mine, OnFigures told) = 0;

  /// Told the sums over all ranks of the numbers by loss that each was asked for at this attempt to
  /// close, if the window's sums are whole. Returns whether losses are now scaled by other
  /// factors, so that each rank makes its sums anew.
  using OnLossSums = std::function<bool(const std::vector<double>& sums)>;
  virtual void set_loss_sums(TellFigures mine, OnLossSums told) = 0;

  /// The totals of the last window that was reduced.
  virtual const WindowTotals& totals() const = 0;

  /// The numbers added up over ranks; `what` says in errors what they are.
  virtual std::vector<double> add_up(std::vector<double> numbers, std::string_view what) = 0;
  /// Tells the others why this rank ends: whatever they wait in fails with this reason.
  virtual void fail(const std::string& reason) noexcept = 0;
};

/// A group of ranks by what an accumulator needs of it; distributed::Group is one.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  /// All ranks call it with buffers of the same parameters and the same options. Throws a usage
  /// Error on all of them that names what differs, or why such sums cannot be shared.
  virtual std::unique_ptr<SharedSums> share_sums(std::shared_ptr<GradientBuffer> buffer,
                                                 const SharingOptions& options) = 0;
};

}  // namespace accrue::accum
