#include <array>

#include "accrue/kernels/kernel_choice.h"
#include "kernels/aten/aten_backend.h"
#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace accrue::kernels {
namespace {

const AtenBackend aten_backend{};
const CpuBackend cpu_backend{};
const CudaBackend cuda_backend{};

/// The devices for which the native kernels have passes of their own.
struct DeviceBackend {
  c10::DeviceType device;
  const Backend* backend;
};
constexpr std::array native_backends{DeviceBackend{c10::DeviceType::CPU, &cpu_backend},
                                     DeviceBackend{c10::DeviceType::CUDA, &cuda_backend}};

}  // namespace

const Backend& backend_of(const at::Tensor& tensor) {
  if (chosen_kernels() == Kernels::generic) return aten_backend;
  for (const DeviceBackend& own : native_backends)
    if (tensor.device().type() == own.device) return *own.backend;
  return aten_backend;
}

}  // namespace accrue::kernels
