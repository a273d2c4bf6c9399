#pragma once

#include "accrue/kernels/kernel_kind.h"

namespace accrue::kernels {

/// Selects the kernels of the process during the scope's lifetime. Scopes nest. If threads choose
/// differently, the last choice applies, as with libtorch's number of threads.
class KernelScope {
 public:
  explicit KernelScope(Kernels kernels);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  Kernels before_;
};

/// Selects the kernels of the process from now on: for a program's setup.
void choose(Kernels kernels);
/// The selected kernels; native by default.
Kernels chosen_kernels();

}  // namespace accrue::kernels
