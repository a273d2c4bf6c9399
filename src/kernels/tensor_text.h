#pragma once

#include <ATen/core/Tensor.h>

#include <sstream>
#include <string>

namespace accrue::kernels {

/// Dtype and sizes, for messages.
inline std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  return text.str();
}

}  // namespace accrue::kernels
