#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// While it lives, kernels take token ids and labels that lie on a device as they are on this
/// thread: whoever put them there has checked them in host memory, as kernels do otherwise, for
/// which they would wait for the device. Losses then count nothing: their weight is 0, and who
/// checked the labels has counted them.
class CheckedLabels {
 public:
  CheckedLabels();
  ~CheckedLabels();
  CheckedLabels(const CheckedLabels&) = delete;
  CheckedLabels& operator=(const CheckedLabels&) = delete;
};

/// Whether `labels`, which may be ids, lie on a device and are not to be looked at.
bool are_checked(const at::Tensor& labels);

}  // namespace accrue::kernels
