#include "accrue/kernels/recompute.h"

#include <ATen/ATen.h>

namespace accrue::kernels {

at::Tensor unread_result(at::IntArrayRef sizes, const at::TensorOptions& options) {
  // Not a view for autograd: it is what a Function returns.
  return at::zeros({}, options).expand(sizes).variable_data();
}

}  // namespace accrue::kernels
