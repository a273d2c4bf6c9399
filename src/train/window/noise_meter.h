#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/mean_gradient.h"
#include "accrue/adapt/noise_scale.h"
#include "accrue/optim/optimizer.h"
#include "accrue/train/config.h"
#include "accum/gradient_norms.h"

namespace accrue::train {

/// The noise of one window's gradient.
struct NoiseReading {
  adapt::NoiseEstimate total;
  /// In the geometry that decides on the batch, if it is another one.
  std::optional<adapt::NoiseEstimate> in_geometry = {};
  std::vector<std::optional<adapt::NoiseEstimate>> blocks = {};  ///< in order of block_names()
};

/// Takes norms of a window's gradient at two weights: of the sums after the first micro-batch, with
/// one pass over them, and of the whole, whose norm clipping takes anyway. With several ranks the
/// sums after each one's first micro-batch count, as averages; with fixed-point sums only the
/// window's first, on whichever rank it is, so that the results have the same bits for any shares.
class NoiseMeter {
 public:
  struct Options {
    NoiseDetail detail = NoiseDetail::total;
    /// None: only the Euclidean norm is taken. Others are taken in addition to it.
    std::optional<NoiseGeometry> geometry = {};
    bool decides = false;             ///< whether decisions need it in every window
    double beta2 = 0.95, eps = 1e-8;  ///< of the optimizer that defines the geometry
  };

  /// Both are kept by reference. For the optimizer's geometry, `optimizer` has to have its second
  /// moments in fp32 under "exp_avg_sq"; for any other the Euclidean norm is used.
  NoiseMeter(const accum::GradientBuffer& buffer, const optim::Optimizer& optimizer,
             const Options& options);

  /// Call it before each window, `steps` optimizer steps into the run; `is_counted` states whether
  /// this rank's first micro-batch counts.
  void begin(std::int64_t steps, bool is_counted = true);
  /// Whether this rank's sums have to be seen before they are added to the other ranks', even if it
  /// has only one micro-batch.
  bool decides() const { return options_.decides; }
  /// Call it after the first micro-batch, with its weight, of a window that has more of them, over
  /// all ranks. Its losses were multiplied by `loss_scale`.
  void see_part(double weight, double loss_scale = 1);
  /// Call it after begin() of a window that continues from its middle: see_part() was called
  /// before, and left these sums. Empty: noise was not measured then.
  void take_up(const std::vector<double>& sums);
  /// The numbers that the ranks add up; the same count on each, zeros if see_part() was not called
  /// since begin().
  const std::vector<double>& sums() const { return sums_; }

  /// `sums` are those of all ranks, `gradient` is the one with which the window closed, not clipped
  /// yet. None if there was no part, or the gradient has no values.
  std::optional<NoiseReading> read(const std::vector<double>& sums,
                                   accum::MeanGradient& gradient) const;
  /// Why the Euclidean norm replaces the requested one; empty if it does not.
  const std::string& remark() const { return remark_; }
  const std::vector<std::string>& block_names() const { return block_names_; }

 private:
  void take_second_moments(const optim::Optimizer& optimizer);
  void name_blocks();
  bool measures_geometry() const;
  double square_in_geometry() const;
  std::vector<double> squares_of_blocks(const std::vector<double>& of_entries) const;

  const accum::GradientBuffer& buffer_;
  Options options_;
  accum::Preconditioner preconditioner_;
  std::vector<std::string> block_names_;
  std::string remark_;
  std::vector<std::size_t> block_of_entry_;
  std::vector<double> sums_;
  std::int64_t steps_ = 0;
  bool is_counted_ = true;
};

/// The part of a parameter's name that names its block: "transformer.h.3.attn.weight" ->
/// "transformer.h.3", "wte.weight" -> "wte".
std::string block_of_parameter(const std::string& name);

}  // namespace accrue::train
