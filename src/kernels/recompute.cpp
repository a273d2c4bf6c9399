#include "accrue/kernels/recompute.h"

#include <ATen/ATen.h>

namespace accrue::kernels {

at::Tensor unread_result(at::IntArrayRef sizes, const at::TensorOptions& options) {
  // Autograd must not see a view here, since a Function returns it.
  return at::zeros({}, options).expand(sizes).variable_data();
}

}  // namespace accrue::kernels
