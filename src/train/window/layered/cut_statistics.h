#pragma once

#include <vector>

#include "accrue/models/trainable.h"
#include "train/window/layered/activation_store.h"
#include "train/window/layered/window_statistics.h"

namespace accrue::train {

/// The batch normalisations at the entrance of a segment, by the statistics of a whole window. The
/// input of the segment passes through them in two steps, between which its gradient is cut: it is
/// standardised, and then the layers' affine maps apply.
class CutStatistics {
 public:
  /// The activations of a micro-batch at the cut.
  using KeptActivations = std::vector<ActivationStore::Kept>;

  CutStatistics() = default;  ///< without batch normalisations, nothing changes
  explicit CutStatistics(std::vector<models::BatchNormSite> sites) : sites_(std::move(sites)) {}

  bool empty() const { return sites_.empty(); }

  /// Takes the statistics over all micro-batches, those of other ranks included.
  void take(const std::vector<KeptActivations>& micro_batches, const AllReduce& all_reduce);
  /// Replaces the activations by their standardised values.
  void standardise(models::Activations& activations) const;
  /// Applies the affine maps to standardised activations, differentiably.
  void apply_affine(models::Activations& standardised) const;

  /// Call before the window's gradients are added.
  void clear_gradient_sums();
  /// Adds the gradients of a micro-batch, whose standardised activations are the `leaves`.
  void add_gradients(const models::Activations& leaves);
  /// Adds up the sums of gradients over the ranks that share the window.
  void reduce_gradient_sums(const AllReduce& all_reduce);
  /// Replaces a micro-batch's gradients of standardised activations by those of `activations`, once
  /// the gradients of the whole window have been added.
  void correct(models::Activations& gradients, const KeptActivations& activations) const;

  void update_running_statistics() const;

 private:
  std::vector<models::BatchNormSite> sites_;
  std::vector<WindowStatistics> statistics_;  ///< by site
  std::vector<GradientSums> sums_;            ///< by site
};

}  // namespace accrue::train
