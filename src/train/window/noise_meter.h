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

/// What one window says of the noise of its gradient.
struct NoiseReading {
  adapt::NoiseEstimate total;
  /// In the geometry that decides about the batch, where that is another one.
  std::optional<adapt::NoiseEstimate> in_geometry = {};
  std::vector<std::optional<adapt::NoiseEstimate>> blocks = {};  ///< in order of block_names()
};

/// Takes norms of a window's gradient at two weights: of the sums behind the first micro-batch, one
/// pass over them, and of the whole, whose norm clipping takes anyway. With several ranks the sums
/// behind each one's first micro-batch count, as averages; in fixed-point sums only the window's
/// first, on whichever rank it is, so that figures have the same bits for any shares.
class NoiseMeter {
 public:
  struct Options {
    NoiseDetail detail = NoiseDetail::total;
    /// None: only the Euclidean norm is taken. Others are taken besides it.
    std::optional<NoiseGeometry> geometry = {};
    bool decides = false;             ///< whether decisions need it in every window
    double beta2 = 0.95, eps = 1e-8;  ///< of the optimizer whose geometry it is
  };

  /// Both are kept by reference. In the optimizer's geometry, `optimizer` keeps its second moments
  /// in fp32 under "exp_avg_sq"; of any other the Euclidean norm stands for it.
  NoiseMeter(const accum::GradientBuffer& buffer, const optim::Optimizer& optimizer,
             const Options& options);

  /// To be called before each window, `steps` optimizer steps into the run; `is_counted` says
  /// whether this rank's first micro-batch counts.
  void begin(std::int64_t steps, bool is_counted = true);
  /// Whether the sums of this rank are to be seen before they are added to the other ranks', also
  /// if it has one micro-batch alone.
  bool decides() const { return options_.decides; }
  /// To be called behind the first micro-batch, with its weight, of a window that has more of them,
  /// over all ranks. Its losses were multiplied with `loss_scale`.
  void see_part(double weight, double loss_scale = 1);
  /// To be called after begin() of a window that goes on in its middle: see_part() was called
  /// before, and left these sums. Empty: nobody measured noise then.
  void take_up(const std::vector<double>& sums);
  /// What the ranks add up; as many numbers on each, zeros where see_part() was not called since
  /// begin().
  const std::vector<double>& sums() const { return sums_; }

  /// `sums` are those of all ranks, `gradient` as the window closed with it, not clipped yet.
  /// Nothing if there was no part, or the gradient has no values.
  std::optional<NoiseReading> read(const std::vector<double>& sums,
                                   accum::MeanGradient& gradient) const;
  /// Why the Euclidean norm stands for what was asked for; empty if it does not.
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
