#include "accrue/kernels/low_precision.h"

#include <ATen/ATen.h>

#include "accrue/core/memory_tag.h"

namespace accrue::kernels {

const at::Tensor& LowPrecisionCopy::of(const at::Tensor& master, at::ScalarType dtype) {
  if (master.scalar_type() == dtype) return master;
  const bool fits = copy_.defined() && copy_.scalar_type() == dtype &&
                    copy_.sizes() == master.sizes() && copy_.device() == master.device();
  if (fits && data_ == master.const_data_ptr() && version_ == master._version()) return copy_;
  const at::NoGradGuard no_grad;
  // In place, so that a graph that still holds the old values is told so by autograd.
  if (!fits) {
    const MemoryTagScope tag(MemoryTag::parameters);
    copy_ = at::empty(master.sizes(), master.options().dtype(dtype));
  }
  copy_.copy_(master);
  data_ = master.const_data_ptr();
  version_ = master._version();
  return copy_;
}

}  // namespace accrue::kernels
