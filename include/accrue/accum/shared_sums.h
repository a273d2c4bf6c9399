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

/// How ranks share the windows of an Accumulator: dist.reduce, compress and shares of a config.
struct SharingOptions {
  /// Sends gradients during the backward of a window's last micro-batch, if the window knows which
  /// one that is, instead of after it. If several accumulators share a group, always after.
  bool overlap = true;
  /// For sums in fp32, which are then no longer exact.
  Compression compress = Compression::none;
  /// share() follows the measured speeds of the ranks.
  bool by_speed = true;
};

/// The part of a window that one rank runs: samples (or tokens) [begin, end).
struct WindowShare {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const WindowShare&) const = default;
};

/// The sums of an accumulator's windows, shared by the ranks of a group. All ranks must make the
/// same calls in the same order, except begin_micro_batch() and fail().
class SharedSums : public Reduction {
 public:
  /// The rank of this process and the number of ranks.
  virtual RankSlice place() const = 0;
  /// This rank's share of a window of `size`, by the speeds so far. Its work is timed from here to
  /// reduce().
  virtual WindowShare share(std::int64_t size) = 0;
  /// Call before each backward; `is_last` marks the last one of the window on this rank.
  virtual void begin_micro_batch(bool is_last) = 0;

  /// Numbers of one rank that all ranks receive when a window closes; as many on each.
  using Figures = std::vector<double>;
  /// Returns this rank's figures; called at each attempt to close.
  using TellFigures = std::function<Figures()>;
  /// Receives all ranks' figures, by rank. If it throws on one rank, it must throw on all.
  using OnFigures = std::function<void(const std::vector<Figures>& by_rank)>;
  virtual void set_figures(TellFigures mine, OnFigures told) = 0;

  /// Receives the sums over all ranks of the numbers by loss that the ranks returned at this
  /// attempt to close, if the window's sums are whole. Returns whether losses are now scaled by
  /// other factors, so that each rank computes its sums again.
  using OnLossSums = std::function<bool(const std::vector<double>& sums)>;
  virtual void set_loss_sums(TellFigures mine, OnLossSums told) = 0;

  /// The totals of the last window that was reduced.
  virtual const WindowTotals& totals() const = 0;

  /// Returns the numbers added up over ranks; `what` describes them in errors.
  virtual std::vector<double> add_up(std::vector<double> numbers, std::string_view what) = 0;
  /// Reports to the other ranks why this one ends: their pending calls fail with this reason.
  virtual void fail(const std::string& reason) noexcept = 0;
};

/// The part of a group of ranks that an accumulator needs; distributed::Group implements it.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  /// All ranks call it with buffers of the same parameters and the same options. Throws a usage
  /// Error on all ranks that names the difference, or the reason why such sums cannot be shared.
  virtual std::unique_ptr<SharedSums> share_sums(std::shared_ptr<GradientBuffer> buffer,
                                                 const SharingOptions& options) = 0;
};

}  // namespace accrue::accum
