#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/findings.h"
#include "verify/split.h"

namespace accrue::proof {

/// The fp64 comparison is a reference, not a second proof: a few samples are enough.
inline constexpr std::int64_t samples_in_double = 8;

/// Compares splits of the same samples with one pass over them, and finds why they differ.
class Prover {
 public:
  /// Runs the one pass, and `noise_draws` more to measure rounding.
  Prover(Subject& subject, batch::Range samples, int noise_draws);
  /// Uses a reference that Subject::in_passes made of `passes`, with a noise that was measured on
  /// some of the samples.
  Prover(Subject& subject, Parts passes, Gradients reference, Noise noise);

  const Noise& noise() const { return noise_; }
  const Gradients& reference() const { return reference_; }
  batch::Range samples() const { return samples_; }

  /// Before a difference counts, rounding is measured by further draws: a unit in the last place
  /// may decide on which side of a kink (ReLU, MaxPool) a value is, and few draws may have missed
  /// it. None are made if the difference persists in fp64, on some of `parts` (empty: fp64 is not
  /// used).
  Comparison judge(const Gradients& accumulated, const Parts& parts);
  /// Measures rounding by `times` more draws.
  void draw(int times);
  /// Runs a split and records the result.
  SplitResult check(const Split& split, Findings& findings);
  /// Records the result of a split that was already run.
  SplitResult record(const Split& split, const Gradients& accumulated, Findings& findings);
  /// Runs one pass again, from the same seed, and returns its difference from the first.
  Difference repeat();
  /// Names the cause of the worst split so far, by as many further passes as needed. A pass that
  /// fails (for lack of memory) is listed in left_out(), and the difference stays.
  Diagnosis explain();
  /// The measurements that failed, with the reason.
  const std::vector<std::string>& left_out() const { return left_out_; }
  /// Worst split so far against one pass.
  Difference worst() const { return worst_; }

  /// The residual allowed for fits: the bounds of all parameters, relative to the gradient.
  double fit_tolerance() const;
  /// The result of the last split.
  const Comparison& last() const { return last_; }
  /// joint_bound of the worst split.
  double joint_bound() const { return joint_bound_; }
  /// are_conclusive() of the worst split.
  bool is_conclusive() const { return is_conclusive_; }
  /// loosest_bound() of the worst split.
  const LoosestBound& loosest() const { return loosest_; }
  /// Gradients::accumulation_errors of the last split checked, divided by its weight.
  const std::vector<double>& mean_accumulation_errors() const { return mean_accumulation_errors_; }
  /// Separate passes over parts of the samples.
  std::vector<Gradients> gradients_of(const Parts& parts);

 private:
  bool may_be_rounding(const Gradients& accumulated, const Parts& parts);
  Difference differ(Mode mode);
  void leave_out(const std::string& what, const std::exception& error);
  template <class Measure>
  void attempt(Observations& seen, const std::string& what, Measure measure);
  void intervene(Observations& seen);
  double noise_of_gradient() const;
  double halved();
  void fit(Observations& seen);
  SumEvidence fit_training();
  void compare_operations(Observations& seen);
  /// On the first samples of `parts`.
  double error_on(std::int64_t samples, Subject& subject, const Parts& parts) const;
  std::optional<double> error_in_double(std::int64_t samples, const Parts& parts);

  Subject& subject_;
  batch::Range samples_;
  Parts passes_;  ///< of the reference
  Gradients reference_;
  Noise noise_;
  std::uint64_t draws_ = 0;
  int further_draws_;
  Difference worst_{.ratio = -1};
  Comparison last_;
  Split worst_split_;
  Gradients worst_gradients_;
  double joint_bound_ = 0;
  bool is_conclusive_ = true;
  LoosestBound loosest_;
  bool scales_draws_ = true;  ///< whether a scaled loss gives the same mean gradient
  std::vector<double> mean_accumulation_errors_;
  std::optional<Difference> repeated_;
  std::vector<std::string> left_out_;
};

}  // namespace accrue::proof
