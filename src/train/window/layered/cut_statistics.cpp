#include "train/window/layered/cut_statistics.h"

#include <ATen/ATen.h>

namespace accrue::train {

void CutStatistics::take(const std::vector<KeptActivations>& micro_batches,
                         const AllReduce& all_reduce) {
  statistics_.clear();
  for (const models::BatchNormSite& site : sites_) {
    std::vector<Moments> moments;
    for (const KeptActivations& kept : micro_batches)
      moments.push_back(moments_of(kept.at(site.activation).tensor()));
    statistics_.push_back(combine(moments, site.layer, all_reduce));
  }
}

void CutStatistics::standardise(models::Activations& activations) const {
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    at::Tensor& x = activations.at(sites_[i].activation);
    x = standardised(x, statistics_[i], sites_[i].layer.eps);
  }
}

void CutStatistics::apply_affine(models::Activations& standardised) const {
  for (const models::BatchNormSite& site : sites_) {
    at::Tensor& x = standardised.at(site.activation);
    x = affine(x, site.layer);
  }
}

void CutStatistics::clear_gradient_sums() {
  sums_.clear();
  for (const WindowStatistics& statistics : statistics_)
    sums_.push_back({at::zeros_like(statistics.mean), at::zeros_like(statistics.mean)});
}

void CutStatistics::add_gradients(const models::Activations& leaves) {
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    const at::Tensor& leaf = leaves.at(sites_[i].activation);
    if (leaf.grad().defined()) sums_[i] += gradient_sums(leaf.grad(), leaf.detach());
  }
}

void CutStatistics::reduce_gradient_sums(const AllReduce& all_reduce) {
  if (!all_reduce) return;
  for (GradientSums& sums : sums_) {
    all_reduce(sums.g);
    all_reduce(sums.g_x_hat);
  }
}

void CutStatistics::correct(models::Activations& gradients,
                            const KeptActivations& activations) const {
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    at::Tensor& gradient = gradients.at(sites_[i].activation);
    if (!gradient.defined()) continue;
    const at::Tensor x = activations.at(sites_[i].activation).tensor();
    const double eps = sites_[i].layer.eps;
    gradient = input_gradient(gradient, standardised(x, statistics_[i], eps), sums_[i],
                              statistics_[i], eps);
  }
}

void CutStatistics::update_running_statistics() const {
  for (std::size_t i = 0; i < sites_.size(); ++i) update_running(sites_[i].layer, statistics_[i]);
}

}  // namespace accrue::train
