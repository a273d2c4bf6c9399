#include "models/layers/image_input.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"
#include "kernels/generic/tensors.h"

namespace accrue::models {

at::Tensor images_as(const at::TensorOptions& options, const at::Tensor& inputs,
                     const std::array<std::int64_t, 3>& expected) {
  const auto [channels, height, width] = expected;
  if (inputs.defined() && inputs.dim() == 4 && at::isFloatingType(inputs.scalar_type()) &&
      inputs.size(1) == channels && inputs.size(2) == height && inputs.size(3) == width)
    return kernels::generic::copied_to(inputs, options.device()).to(options.dtype());
  throw usage_error(
      "read images",
      c10::str("floating-point images [B, ", channels, ", ", height, ", ", width, ']'),
      inputs.defined() ? c10::str(inputs.scalar_type(), ' ', inputs.sizes()) : "no tensor",
      "a model made for images of this shape");
}

}  // namespace accrue::models
