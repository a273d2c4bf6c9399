#include "accrue/device/device.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "accrue/core/error.h"
#include "core/loaded_libraries.h"

namespace accrue::device {
namespace {

namespace fs = std::filesystem;

Error refused(std::string_view name, const std::string& expected, const std::string& received,
              const std::string& suggestion) {
  const std::string word(name.substr(0, name.find(':')));
  return {Error::Kind::usage, "run.device = \"" + word + "\"", expected, received, suggestion};
}

c10::Device parsed(std::string_view name) {
  try {
    return c10::Device(std::string(name));
  } catch (const c10::Error&) {
    throw refused(name, "a device of torch's", "another word", "\"cpu\" or \"cuda\"");
  }
}

/// The separate libtorch library for a type of devices, in libtorch's folder.
fs::path part_for(c10::DeviceType type) {
  const fs::path libtorch = library_of(reinterpret_cast<const void*>(&at::globalContext));
  return libtorch.parent_path() /
         ("libtorch_" + c10::DeviceTypeName(type, /*lower_case=*/true) + ".so");
}

/// By default libtorch rounds the operands of a GPU's convolutions in fp32 to TF32, and adds up
/// gradients of their weights in any order.
void keep_promises_of_convolutions() {
  at::globalContext().setDeterministicCuDNN(true);
  at::globalContext().setFloat32Precision(at::Float32Backend::CUDA, at::Float32Op::CONV,
                                          at::Float32Precision::IEEE);
}

/// Loads libtorch's library for a type of devices, which registers itself. Devices other than
/// CUDA's may have been registered by another library.
void load_part(std::string_view name, c10::DeviceType type) {
  if (c10::impl::hasDeviceGuardImpl(type)) return;
  const fs::path part = part_for(type);
  if (std::error_code error; !fs::exists(part, error)) {
    if (type != c10::DeviceType::CUDA) return;
    throw refused(name, "a libtorch with CUDA", "one without it, in " + part.parent_path().string(),
                  "a build with a CUDA wheel of torch (docs/guide/install.md), or \"cpu\"");
  }
  if (dlopen(part.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr)
    throw refused(name, "libtorch's part for this device with all that it needs", dlerror(),
                  "pip install of that torch with its dependencies");
}

/// The message of torch for a driver that does not work with it, without its stack.
std::string complaint_of_driver(c10::DeviceType type) {
  try {
    at::globalContext().lazyInitDevice(type);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

void expect_there(std::string_view name, c10::Device device) {
  if (!c10::impl::hasDeviceGuardImpl(device.type()))
    throw refused(name, "a libtorch with a part for it", "one without", "\"cpu\" or \"cuda\"");
  const auto count = c10::impl::getDeviceGuardImpl(device.type())->deviceCount();
  if (count == 0)
    throw refused(name, "a device and a driver for it", complaint_of_driver(device.type()),
                  device.is_cuda() ? "\"cpu\", or a newer driver (nvidia-smi shows the present one)"
                                   : "\"cpu\", or the driver of this device");
  if (device.index() >= count)
    throw refused(name, "one of " + std::to_string(count) + " devices, counted from 0",
                  device.str(), "as many ranks on a machine as it has devices");
}

}  // namespace

c10::Device open(std::string_view name) {
  const c10::Device device = parsed(name);
  if (device.is_cpu()) return device;
  load_part(name, device.type());
  expect_there(name, device);
  try {
    at::globalContext().lazyInitDevice(device.type());
  } catch (const c10::Error& error) {
    throw refused(name, "a device that tensors can be computed on", error.what_without_backtrace(),
                  "\"cpu\" or \"cuda\"");
  }
  const c10::Device exact(device.type(), device.has_index() ? device.index() : c10::DeviceIndex{0});
  c10::impl::getDeviceGuardImpl(device.type())->setDevice(exact);
  keep_promises_of_convolutions();
  return exact;
}

c10::Device best() {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (std::error_code error; !fs::exists(part_for(c10::DeviceType::CUDA), error)) return cpu;
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) return cpu;
  try {
    return open("cuda");
  } catch (const Error&) {
    return cpu;
  }
}

void synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

}  // namespace accrue::device
