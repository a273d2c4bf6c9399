#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accrue/verify/report.h"

namespace accrue::proof {

/// The distance of two gradients, at the parameter with the largest error / bound.
struct Difference {
  double relative_error = 0;
  double ratio = 0;  ///< error / bound
  bool exceeds() const { return !(ratio <= 1); }
};

/// Relative: weights are counts or sums of a few thousand numbers, added in double.
constexpr double weight_tolerance = 1e-6;

/// The fraction of a difference by rounding alone that fp64 may leave: u shrinks by 2^29.
constexpr double shrunk_in_double = 1e-5;

/// Half the loss gives half the gradient, except for numbers that underflow (fp16).
constexpr double most_unscaled = 1e-2;

/// The quality of an explanation of a gradient, with a factor fitted by least squares.
struct Fit {
  double factor = 1;
  double residual = 1;   ///< |gradient - factor * explanation| / |gradient|, all parameters
  bool matches = false;  ///< the residual is as small as rounding
};

/// Training's result for a split, compared with the gradients of its parts in separate passes.
struct SumEvidence {
  double residual = 1;      ///< of the parts' sum in fp64
  bool keeps_sums = false;  ///< Subject::sum_roundoff() is 0
  double sum_rounding = 0;  ///< bound of the error of rounding it that way (RoundingTerms)
  /// The residual of the parts' sum in bf16, rounded part by part; measured if sums are kept so.
  std::optional<double> residual_in_bf16;
  std::optional<Fit> multiple;  ///< by a multiple of the parts' sum
  std::optional<Fit> span;      ///< by any combination of the parts
  std::vector<double> shares;   ///< of each part in it
  double tolerance = 0;         ///< of these fits, if passes round identically
  /// An additional residual if they round differently: a weight within the loss changes the
  /// rounding of every product after it.
  double pass_rounding = 0;
};

/// Measurements of a model and its loss. A value that was not measured is absent.
struct Observations {
  Difference split;                    ///< the worst split against one pass
  std::optional<Difference> repeated;  ///< one pass twice, from the same seed
  std::optional<Difference> reseeded;  ///< one pass from two seeds
  std::vector<std::string> dropouts;   ///< names of layers, if known
  std::vector<std::string> batch_norms;
  bool buffers_moved = false;            ///< by a forward pass in training mode
  std::optional<Difference> frozen;      ///< the split again, batch norms by running statistics
  std::optional<Difference> evaluation;  ///< the split again, the model in evaluation mode
  /// The change of the mean gradient of one pass when its loss is halved, relative.
  std::optional<double> halved;
  double weight = 0;  ///< of one pass
  double weight_of_parts = 0;
  double loss_sum = 0;
  double loss_sum_of_parts = 0;
  /// One pass by the mean of the parts, each counted by its weight.
  std::optional<Fit> mean_as_sum;
  std::optional<Fit> multiple;  ///< one pass by a multiple of the sum of the parts
  std::optional<Fit> span;      ///< one pass by any combination of the parts
  /// Parts use other statistics than the whole by design (exact batch normalisation), so theirs
  /// show nothing about it.
  bool parts_differ_by_design = false;
  bool is_complete = true;  ///< no measurement failed
  /// One pass is the sum of its parts if these are added in fp64: only the adding is wrong.
  bool parts_add_up = false;
  /// One pass by accrue's operations against one by ATen's, and the parameter that differs most.
  std::optional<Difference> kernels;
  std::string kernels_parameter;
  double kernels_factor = 1;  ///< ParameterComparison::factor there
  std::optional<SumEvidence> added_up;
  std::string split_name;  ///< of the worst split
  /// The split again in fp64: the error there relative to the same scale.
  std::optional<double> relative_error_in_double;
  std::string low_precision;  ///< a dtype below the parameters' in the graph of the loss, or empty
};

struct Diagnosis {
  Cause cause = Cause::none;
  std::vector<std::string> evidence;
  std::vector<Cause> besides = {};          ///< further causes, each with its own evidence
  std::vector<std::string> ruled_out = {};  ///< "cause: the evidence against it"
  Place place = Place::none;                ///< if the cause is unknown
  std::optional<double> factor = {};        ///< Report::factor
};

/// Whether two numbers are equal up to `tolerance` times the larger one.
bool same(double a, double b, double tolerance);

/// Names the causes. A pure function. Exact evidence comes first (repetition, weights), then
/// interventions (seed, batch norms, fp64), then fits; an unexplained loss is batch-coupled.
/// Weights, dropout and batch norms are named together if the evidence indicates more than one.
Diagnosis diagnose(const Observations& seen);

/// Explains why training's result is not the sum of the same parts. An exact explanation comes
/// before rounding, which comes before "unknown".
Diagnosis diagnose_sum(const SumEvidence& added);

/// Measurements of a user's loop whose loss alone is correct.
struct LoopObservations {
  Difference difference;               ///< the loop's `.grad` against one pass
  std::optional<Difference> repeated;  ///< the loop twice, from the same seed
  std::int64_t micro_batches = 0;
  double total_weight = 0;
  bool no_gradient = false;          ///< every `.grad` was undefined or zero afterwards
  bool parameters_changed = false;   ///< between the start and the end
  std::int64_t stepped_before = -1;  ///< the backward (from 0) that found parameters changed
  std::string stepped_parameter;
  std::int64_t zeroed_before = -1;  ///< the backward (from 0) that found a sum gone
  std::string zeroed_parameter;
  bool saw_sums = true;             ///< in some `.grad`, by a later backward
  Fit multiple;                     ///< by a multiple of the true gradient
  Fit mean_of_means;                ///< by a multiple of the mean of the micro-batch means
  Fit tail;                         ///< by a multiple of the sum of only the last micro-batches
  std::int64_t tail_begins = 0;     ///< the first of them
  Fit span;                         ///< by any combination of micro-batch gradients
  std::vector<double> shares;       ///< of each in it, relative to its true share
  std::vector<double> mean_shares;  ///< of each one's mean gradient in it
  std::vector<double> part_norms;   ///< of each one's mean gradient
  Fit low_precision;                ///< by adding up in `gradient_dtype`
  std::string gradient_dtype;
};

Diagnosis diagnose_loop(const LoopObservations& seen);

}  // namespace accrue::proof
