#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// During its lifetime, kernels on this thread use token ids and labels on a device without
/// checking them: the code that put them there has checked them in host memory. Otherwise kernels
/// would have to wait for the device. Losses then have weight 0, and the code that checked the
/// labels counts them.
class CheckedLabels {
 public:
  CheckedLabels();
  ~CheckedLabels();
  CheckedLabels(const CheckedLabels&) = delete;
  CheckedLabels& operator=(const CheckedLabels&) = delete;
};

/// Whether `labels`, which may be ids, are on a device and must not be checked.
bool are_checked(const at::Tensor& labels);

}  // namespace accrue::kernels
