#pragma once

#include <memory>
#include <optional>

#include "accrue/accum/window.h"
#include "accrue/models/model.h"
#include "accrue/optim/optimizer.h"
#include "data/loader.h"
#include "support/snapshot.h"
#include "train/plan/setup.h"
#include "train/workload/workload.h"
#include "verify/config/draws_check.h"
#include "verify/config/fixed_sums.h"
#include "verify/config/training_parts.h"
#include "verify/subject.h"

namespace accrue::proof {

/// A copy of `from`, a model of `config`, in the precision in which `config` computes.
std::unique_ptr<models::Model> copy_of(const models::Model& from, const train::Config& config,
                                       const TrainingParts& parts = training_parts());

/// The state of an optimizer that is linear in the gradients folded into it.
struct FoldedMoment {
  std::string prefix;  ///< of its tensors' names
  double share = 1;    ///< of the mean gradient that one window leaves in it
};

/// How a step's gradient reaches the optimizer.
enum class StepsBy { buffer, folding };

/// A config's model on the samples of its run's first window. Parts are ranges of draw ordinals.
///
/// Training is represented by its runner and train::run_window (TrainedWindow), and the closed
/// window's mean gradient is compared. The pass with which it is compared uses plain autograd and
/// ATen's operators (kernels/plain).
class ConfigSubject : public Subject {
 public:
  /// `work` and `parts` are kept by reference. With `twin`, that model replaces the config's (in
  /// fp64, and its gradients are accumulated in fp64).
  explicit ConfigSubject(const train::Workload& work, const TrainingParts& parts = training_parts(),
                         std::unique_ptr<models::Model> twin = nullptr);

  const NamedParameters& parameters() const override { return trained_; }
  std::int64_t samples() const override { return window_.size(); }
  batch::Range window() const { return window_; }
  /// `count` consecutive samples (all if there are fewer), as near to the first as possible, but
  /// including one with a label that counts, if there is any.
  batch::Range counting(batch::Range samples, std::int64_t count) const;

  Gradients one_pass(batch::Range part, const Conditions& conditions) override;
  /// For exact batch normalisation, several passes are run as in training: only training has the
  /// statistics of all of them.
  Gradients in_passes(const Parts& parts, const Conditions& conditions) override;
  Gradients native_pass(batch::Range part, const Conditions& conditions) override;
  /// Accumulates like training with a buffer: by model.batchnorm, precision.accumulate and the
  /// recomputation that was set.
  Gradients accumulated(const Parts& parts, const Conditions& conditions) override;
  /// The fixed-point sums of the last accumulated(), if training keeps such sums.
  const std::optional<FixedPoint>& fixed_point() const { return fixed_point_; }
  std::vector<std::string> shared_parameters() const { return model_.shared_parameters(); }
  /// One pass through autograd, with the operations of accrue's models by `operations`.
  Gradients pass_by(const kernels::Operations& operations, batch::Range part);
  std::string compute() const { return std::string(to_string(config_.precision.compute)); }
  /// Sets training's recomputation, once it is planned.
  void set_recompute(Recompute recompute) { recompute_ = recompute; }
  Recompute recompute() const { return recompute_; }
  bool takes_statistics_of_window() const override { return exact_; }
  /// Whether training folds gradients into its optimizer, without sums.
  bool folds() const;
  /// Accumulates like training that folds: returns the effect of one window on the optimizer's
  /// first moment. It loses as much as sums in a buffer do, so `accumulation_errors` are those of
  /// accumulated().
  Gradients folded(const Parts& parts, std::vector<double> accumulation_errors);
  /// Folds into an optimizer of the caller, which has taken no step.
  Gradients folded_into(optim::Optimizer& optimizer, const FoldedMoment& moment,
                        const Parts& parts);
  std::vector<std::string> batch_norms() const override;
  std::vector<std::string> dropouts() const override;
  bool draws_in_order() const override { return !dropouts().empty(); }
  bool can(Mode mode) const override { return mode != Mode::batch_norms_frozen; }
  bool buffers_moved() const override { return buffers_moved_; }
  double sum_roundoff() const override;
  double rounds_elsewhere() const override;
  std::unique_ptr<Subject> in_double() override { return twin_in_double(); }
  /// Null for a config that computes in fp64.
  std::unique_ptr<ConfigSubject> twin_in_double();

  /// Accumulates like training with `ranks` ranks (window_of_ranks).
  Gradients by_ranks(std::int64_t ranks, const train::MicroDecision& micro);
  /// Parameters after an optimizer step for each of `windows`, from the current ones, as in
  /// training; parameters and buffers are restored. Window i has the samples and the random numbers
  /// of the run's window i. Folding has no weighting.
  std::vector<at::Tensor> after_steps(const std::vector<Parts>& windows,
                                      const Conditions& conditions = {},
                                      StepsBy by = StepsBy::buffer);
  /// Parameters after an optimizer step for each of `windows` by `ranks` ranks, by rank, from the
  /// current ones (parameters_after_steps_of_ranks). Like after_steps() it keeps moments in fp32.
  std::vector<std::vector<at::Tensor>> after_steps_of_ranks(
      std::int64_t ranks, const train::MicroDecision& micro,
      const std::vector<batch::Range>& windows);
  /// Parameters after the steps of a ReferenceOptimizer for each of `windows`, each one plain pass,
  /// from the current ones, which are restored, with the random numbers of the run's window i.
  std::vector<at::Tensor> after_reference_steps(const std::vector<batch::Range>& windows,
                                                const Conditions& conditions = {});
  /// The names of parameters that are not trained and have changed since construction.
  std::vector<std::string> moved_frozen_parameters() const;
  /// Checks the run's draws, the window's micro-batches as loaded, and its labels if they are
  /// running text.
  DataCheck check_data(const Parts& parts) const;

 private:
  std::vector<std::unique_ptr<models::Model>> copies_of_model(std::int64_t count) const;
  Gradients autograd_pass(batch::Range part, std::int64_t window, const Conditions& conditions,
                          const kernels::Operations& operations);
  bool counts(std::int64_t draw) const;
  Gradients run(const Parts& parts, const Conditions& conditions, accum::Accumulation accumulation);
  void fill(accum::Window& window, const Parts& parts, const Conditions& conditions,
            Gradients& result);
  Gradients by_training(const Parts& parts, const Conditions& conditions,
                        accum::Accumulation accumulation, Recompute recompute);
  std::vector<std::string> foreign(models::ForeignLayer::Kind kind) const;

  const train::Workload& work_;
  const TrainingParts& parts_;
  train::Config config_;  ///< the workload's, or the twin's
  std::unique_ptr<models::Model> twin_;
  models::Model& model_;
  std::unique_ptr<data::Loader> loader_;
  batch::Range window_;
  NamedParameters trained_, frozen_;
  std::vector<TensorSnapshot> frozen_before_;  ///< one of each
  Recompute recompute_ = Recompute::none;
  bool exact_ = false;
  bool buffers_moved_ = false;
  std::optional<FixedPoint> fixed_point_;
};

}  // namespace accrue::proof
