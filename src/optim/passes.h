#pragma once

#include <cstddef>

namespace accrue::optim {

/// One optimizer step over flat memory in a single pass: each element of each array is read once
/// and written once, and the gradient is scaled on the way. Coefficients are computed by the caller
/// in double. Element is float or double.
template <class T>
struct AdamPass {
  using Element = T;
  T* parameter;
  const T* gradient;
  T* exp_avg;
  T* exp_avg_sq;
  T gradient_scale;
  T l2;    ///< added to the gradient, times the parameter
  T keep;  ///< of the parameter before the update: 1 - lr * decoupled decay
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

/// Updates the first `count` elements. The result of one does not depend on how many there are.
void run_pass(const AdamPass<float>& pass, std::size_t count);
void run_pass(const AdamPass<double>& pass, std::size_t count);
void run_pass(const SgdPass<float>& pass, std::size_t count);
void run_pass(const SgdPass<double>& pass, std::size_t count);
void run_pass(const RmsPropPass<float>& pass, std::size_t count);
void run_pass(const RmsPropPass<double>& pass, std::size_t count);

}  // namespace accrue::optim
