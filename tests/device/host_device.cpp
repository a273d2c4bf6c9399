#include "device/host_device.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SDPBackend.h>
#include <ATen/detail/HPUHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>

#include "device/host_device_memory.h"
#include "device/host_device_recording.h"

namespace accrue::testing {
namespace {

std::atomic<std::int64_t> waits{0}, pageable_copies{0};

void wait(const char* why) {
  expect_no_recording(why);
  ++waits;
}

/// libtorch finds the hooks by this name.
struct HPUHooks final : at::HPUHooksInterface {
  explicit HPUHooks(at::HPUHooksArgs /*none*/) {}
  void init() const override {}
  bool hasHPU() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex /*device*/) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex /*device*/) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex /*device*/) const override { return 0; }
  bool isPinnedPtr(const void* data) const override { return is_pinned_memory(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
};

using at::HPUHooksRegistry, at::RegistererHPUHooksRegistry;
REGISTER_HPU_HOOKS(HPUHooks)

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::HPU> {
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  c10::Stream getStream(c10::Device /*device*/) const noexcept override { return stream(); }
  c10::Stream getNewStream(c10::Device /*device*/, int /*priority*/) const override {
    return stream();
  }
  c10::Stream exchangeStream(c10::Stream /*stream*/) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void synchronizeDevice(const c10::DeviceIndex /*device*/) const override { ++waits; }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, kDevice); }
};
C10_REGISTER_GUARD_IMPL(HPU, Guard)

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  if (InOperation::depth() > 0) {
    copy_here(from, to);
    return to;
  }
  if (to.is_cpu()) wait("a copy to the host");
  if (from.is_cpu() && from.numel() > 1 && !from.is_pinned()) ++pageable_copies;
  copy_and_record(from, to);
  return to;
}

const at::Tensor& resize_in_place(const at::Tensor& self, at::IntArrayRef sizes,
                                  std::optional<at::MemoryFormat> format) {
  c10::TensorImpl* const tensor = self.unsafeGetTensorImpl();
  tensor->set_sizes_contiguous(sizes);
  if (format && *format != at::MemoryFormat::Preserve) tensor->empty_tensor_restride(*format);
  const std::size_t bytes =
      at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize(),
                                       static_cast<std::size_t>(self.storage_offset()));
  const c10::Storage& storage = self.storage();
  if (storage.nbytes() < bytes) {
    // The values are undefined afterwards: our code resizes no tensor that has values.
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(memory_of_host_device().allocate(bytes));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) resize_in_place(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

at::Tensor empty_plain(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                       std::optional<at::Layout> /*layout*/, std::optional<at::Device> /*device*/,
                       std::optional<bool> /*pinned*/, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &memory_of_host_device(),
                                   c10::DispatchKeySet(c10::DispatchKey::HPU),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_with_strides(at::IntArrayRef sizes, at::IntArrayRef strides,
                              std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> /*layout*/,
                              std::optional<at::Device> /*device*/,
                              std::optional<bool> /*pinned*/) {
  return at::detail::empty_strided_generic(sizes, strides, &memory_of_host_device(),
                                           c10::DispatchKeySet(c10::DispatchKey::HPU),
                                           dtype.value_or(at::kFloat));
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::TensorImpl* const tensor = self.unsafeGetTensorImpl();
  tensor->set_storage_keep_dtype(std::move(source));
  tensor->set_storage_offset(offset);
  if (strides.empty())
    tensor->set_sizes_contiguous(sizes);
  else
    tensor->set_sizes_and_strides(sizes, strides);
  return self;
}

/// The CPU's operation, on copies.
void on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const bool is_asked_for = InOperation::depth() == 0;
  const InOperation in_operation;
  is_asked_for ? do_and_record(operation, stack) : at::native::cpu_fallback(operation, stack);
}

/// An operation for whose result the host has to wait.
void awaited_on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  if (InOperation::depth() == 0) wait("reading a result");
  on_host(operation, stack);
}

// Devices that are not libtorch's own define attention and convolution under separate names.

std::int64_t choose_attention(const at::Tensor& /*q*/, const at::Tensor& /*k*/,
                              const at::Tensor& /*v*/, const std::optional<at::Tensor>& /*mask*/,
                              double /*dropout*/, bool /*causal*/, std::optional<double> /*scale*/,
                              bool /*grouped*/) {
  return static_cast<std::int64_t>(at::SDPBackend::math);
}

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                    at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                    at::IntArrayRef output_padding, std::int64_t groups) {
  expect_no_recording("a convolution");
  const InOperation in_operation;
  const std::optional<at::Tensor> host_bias = bias && bias->defined() ? bias->cpu() : bias;
  return at::convolution(input.cpu(), weight.cpu(), host_bias, stride, padding, dilation,
                         transposed, output_padding, groups)
      .to(kDevice);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> wanted) {
  expect_no_recording("a convolution");
  const InOperation in_operation;
  const std::int64_t outputs = grad.size(1);
  const auto [of_input, of_weight, of_bias] = at::convolution_backward(
      grad.cpu(), input.cpu(), weight.cpu(), at::OptionalIntArrayRef({outputs}), stride, padding,
      dilation, transposed, output_padding, groups, wanted);
  const auto there = [](const at::Tensor& x) { return x.defined() ? x.to(kDevice) : x; };
  return {there(of_input), there(of_weight), there(of_bias)};
}

/// It changes running statistics, which its schema does not state.
std::tuple<at::Tensor, at::Tensor, at::Tensor> normalise_batch(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
    const std::optional<at::Tensor>& running_var, bool training, double momentum, double eps) {
  const InOperation in_operation;
  const auto here = [](const std::optional<at::Tensor>& x) {
    return x && x->defined() ? std::optional(x->cpu()) : std::nullopt;
  };
  const auto normalise = [=] {
    const std::optional<at::Tensor> mean = here(running_mean), variance = here(running_var);
    auto results = at::native_batch_norm(input.cpu(), here(weight), here(bias), mean, variance,
                                         training, momentum, eps);
    if (mean) at::Tensor(*running_mean).copy_(*mean);
    if (variance) at::Tensor(*running_var).copy_(*variance);
    return results;
  };
  const auto [out, of_mean, of_deviation] = normalise();
  const std::array there{out.to(kDevice), of_mean.to(kDevice), of_deviation.to(kDevice)};
  record([normalise, there] {
    const auto [again, mean_again, deviation_again] = normalise();
    copy_here(again, there[0]);
    copy_here(mean_again, there[1]);
    copy_here(deviation_again, there[2]);
  });
  return {there[0], there[1], there[2]};
}

void ignore_stream(at::Tensor& /*self*/, c10::Stream /*stream*/) {}

TORCH_LIBRARY_IMPL(_, HPU, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host>()); }

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", &empty_plain);
  m.impl("empty_strided", &empty_with_strides);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("resize_", &resize_in_place);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("record_stream", &ignore_stream);
  m.impl("_fused_sdp_choice", &choose_attention);
  m.impl("native_batch_norm", &normalise_batch);
  m.impl("convolution_overrideable", &convolve);
  m.impl("convolution_backward_overrideable", &convolve_backward);
  for (const char* name : {"_local_scalar_dense", "equal", "masked_select", "nonzero"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&awaited_on_host>());
}

/// An operation that a test removes from the device, by its name in the environment.
void refuse(const c10::OperatorHandle& operation, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the device has no ", operation.schema().name());
}

const bool is_there = [] {
  c10::SetAllocator(c10::DeviceType::HPU, &memory_of_host_device());
  if (const char* const name = std::getenv("ACCRUE_HOST_DEVICE_WITHOUT")) {
    static torch::Library without(torch::Library::IMPL, "aten", c10::DispatchKey::HPU, __FILE__,
                                  __LINE__);
    without.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  }
  return true;
}();

}  // namespace

std::int64_t waits_for_host_device() { return waits; }

std::int64_t pageable_copies_to_host_device() { return pageable_copies; }

}  // namespace accrue::testing
