#include "accrue/kernels/kernel_choice.h"

#include <atomic>

namespace accrue::kernels {
namespace {

// One per process: libtorch runs backward passes on a device in separate threads.
std::atomic<Kernels> chosen{Kernels::native};

}  // namespace

KernelScope::KernelScope(Kernels kernels) : before_(chosen) { chosen = kernels; }

KernelScope::~KernelScope() { chosen = before_; }

void choose(Kernels kernels) { chosen = kernels; }

Kernels chosen_kernels() { return chosen; }

}  // namespace accrue::kernels
