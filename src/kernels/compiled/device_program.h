#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace accrue::kernels::compiled {

/// One kernel of the text in row_kernels.inc with its constants, in C++ syntax: "norm_forward<768,
/// 32, true, true>".
struct Launch {
  std::string kernel;
  std::int64_t blocks = 1;
  unsigned threads = 256;
  unsigned shared_bytes = 0;  ///< of shared memory, at most most_shared_bytes()
};

/// Whether kernels can be compiled for the device of `tensor`: a CUDA one, with NVIDIA's run-time
/// compiler (NVRTC) and the driver to load its output, which are searched once. Otherwise operators
/// of ATen do the work.
bool can_compile_for(const at::Tensor& tensor);

/// The most shared memory of a block.
std::int64_t most_shared_bytes(const at::Tensor& on);

/// Launches a kernel on the device's current stream, compiled at its first use (some tenths of a
/// second). `arguments` are the addresses of its arguments, in order. Throws a runtime Error if the
/// compiler or the driver refuses.
void launch(const at::Tensor& on, const Launch& what, const std::vector<const void*>& arguments);

}  // namespace accrue::kernels::compiled
