#pragma once

#include <cstddef>

namespace accrue::optim {

/// One optimizer step over flat memory in a single pass: each element of each array is read once
/// and written once, and the gradient is scaled in the same pass. The caller computes coefficients
/// in double. Element is float or double.
template <class T>
struct AdamPass {
  using Element = T;
  T* parameter;
  const T* gradient;
  T* exp_avg;
  T* exp_avg_sq;
  T gradient_scale;
  T l2;    ///< L2 penalty: this times the parameter is added to the gradient
  T keep;  ///< factor of the parameter before the update: 1 - lr * decoupled decay
  T one_minus_beta1;
  T beta2, one_minus_beta2;
  T step_size;          ///< lr / (1 - beta1^t)
  T second_correction;  ///< 1 / sqrt(1 - beta2^t)
  T eps;
};

template <class T>
struct SgdPass {
  using Element = T;
  T* parameter;
  const T* gradient;
  T* momentum_buffer;  ///< null without momentum
  T gradient_scale;
  T l2;
  T momentum;
  T lr;
};

template <class T>
struct RmsPropPass {
  using Element = T;
  T* parameter;
  const T* gradient;
  T* square_avg;
  T* momentum_buffer;  ///< null without momentum
  T gradient_scale;
  T l2;
  T alpha, one_minus_alpha;
  T eps;
  T momentum;
  T lr;
};

/// Folds one micro-batch's contribution into the moments: m = keep1 m + w1 g, v = keep2 v + w2 g^2.
template <class T>
struct MomentFold {
  using Element = T;
  const T* gradient;
  T* exp_avg;
  T* exp_avg_sq;
  T keep1, weight1;
  T keep2, weight2;
};

/// Adam's step from moments that already include the gradient, after multiplying them by `keep1`
/// and `keep2`.
template <class T>
struct MomentStep {
  using Element = T;
  T* parameter;
  T* exp_avg;
  T* exp_avg_sq;
  T keep1, keep2;
  T keep;       ///< of the parameter
  T step_size;  ///< as in AdamPass
  T second_correction;
  T eps;
};

/// buffer = keep buffer + weight g + l2 parameter.
template <class T>
struct MomentumFold {
  using Element = T;
  const T* parameter;
  const T* gradient;  ///< null: none
  T* momentum_buffer;
  T keep, weight, l2;
};

/// Updates the first `count` elements. The result of an element does not depend on `count`.
void run_pass(const AdamPass<float>& pass, std::size_t count);
void run_pass(const AdamPass<double>& pass, std::size_t count);
void run_pass(const SgdPass<float>& pass, std::size_t count);
void run_pass(const SgdPass<double>& pass, std::size_t count);
void run_pass(const RmsPropPass<float>& pass, std::size_t count);
void run_pass(const RmsPropPass<double>& pass, std::size_t count);
void run_pass(const MomentFold<float>& pass, std::size_t count);
void run_pass(const MomentFold<double>& pass, std::size_t count);
void run_pass(const MomentStep<float>& pass, std::size_t count);
void run_pass(const MomentStep<double>& pass, std::size_t count);
void run_pass(const MomentumFold<float>& pass, std::size_t count);
void run_pass(const MomentumFold<double>& pass, std::size_t count);

}  // namespace accrue::optim
