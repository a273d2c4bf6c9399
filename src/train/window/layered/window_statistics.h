#pragma once

#include <vector>

#include "accrue/models/batch_norm.h"
#include "train/window/layered/layered_window.h"

namespace accrue::train {

/// The moments of a micro-batch's x [B, C, ...] over all dimensions but the channels, in fp64.
struct Moments {
  double count = 0;          ///< values in a channel
  at::Tensor mean, squares;  ///< [C]; `squares`: sum of squared distances from the mean
};
Moments moments_of(const at::Tensor& x);

/// The statistics of a whole window at one batch normalisation, fp64.
struct WindowStatistics {
  double count = 0;
  at::Tensor mean, variance;  ///< [C]; the biased variance, by which x is normalised
};

/// Combines micro-batches that may differ in size (Chan, Golub, LeVeque: "Updating formulae and a
/// pairwise algorithm for computing sample variances", 1979). They are added in order, so the same
/// micro-batches give the same bits. Throws a usage Error naming `layer` if a channel has less than
/// two values.
WindowStatistics combine(const std::vector<Moments>& micro_batches, const models::BatchNorm& layer,
                         const AllReduce& all_reduce);

/// (x - mean) / sqrt(variance + eps), in x's dtype.
at::Tensor standardised(const at::Tensor& x, const WindowStatistics& statistics, double eps);
/// The layer's affine map; differentiable, and always a new tensor.
at::Tensor affine(const at::Tensor& x_hat, const models::BatchNorm& layer);

/// The sums over the whole window that the gradient of x needs, fp64 [C]: of g = dL/dx_hat and of g
/// x_hat.
struct GradientSums {
  at::Tensor g, g_x_hat;
  GradientSums& operator+=(const GradientSums& other);
};
GradientSums gradient_sums(const at::Tensor& g, const at::Tensor& x_hat);
/// dL/dx = (g - Σg / N - x_hat Σ(g x_hat) / N) / sqrt(variance + eps) (Ioffe and Szegedy,
/// arXiv:1502.03167, section 3).
at::Tensor input_gradient(const at::Tensor& g, const at::Tensor& x_hat, const GradientSums& window,
                          const WindowStatistics& statistics, double eps);

/// Updates the running statistics by one full batch.
void update_running(const models::BatchNorm& layer, const WindowStatistics& statistics);

}  // namespace accrue::train
