#pragma once

#include <ATen/core/Tensor.h>

#include "accrue/kernels/kernel_kind.h"

namespace accrue::kernels {

/// Chooses for the process while the scope lives. Scopes nest; where threads choose differently the
/// last one wins, as with libtorch's number of threads.
class KernelScope {
 public:
  explicit KernelScope(Kernels kernels);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  Kernels before_;
};

/// Chooses for the process from now on: for a program's setup.
void choose(Kernels kernels);
/// What was chosen; native if nothing was.
Kernels chosen_kernels();

/// Whether an operation on `tensor` is to be made of ATen's operators: it is not in host memory, or
/// that was chosen.
bool by_aten(const at::Tensor& tensor);

}  // namespace accrue::kernels
