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
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace accrue::testing {
namespace {

constexpr auto kType = c10::DeviceType::HPU;
const c10::Device kDevice{kType, 0};

std::atomic<std::int64_t> waits{0}, pageable_copies{0};
/// How deep this thread is in operations of the device, whose copies are no waits of the host's.
thread_local int operations = 0;

/// The device's memory, which this process has mapped twice: where tensors say that they are,
/// nobody may read or write, and the device's own copies go to the other place.
class Arena {
 public:
  Arena() {
    const int file = ::memfd_create("host device", MFD_CLOEXEC);
    TORCH_CHECK(file >= 0 && ::ftruncate(file, kBytes) == 0, "no memory for the device");
    closed_ = map(file, PROT_NONE);
    open_ = map(file, PROT_READ | PROT_WRITE);
    ::close(file);
  }

  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    std::vector<char*>& free = free_[std::bit_ceil(bytes)];
    if (free.empty()) {
      free.push_back(closed_ + used_);
      used_ += std::max(std::bit_ceil(bytes), kAlignment);
      TORCH_CHECK(used_ <= kBytes, "the device's memory has no room left to hand out");
    }
    char* const begin = free.back();
    free.pop_back();
    return begin;
  }
  void give_back(void* begin, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    free_[std::bit_ceil(bytes)].push_back(static_cast<char*>(begin));
  }
  /// Where the device itself finds what tensors have at `closed`.
  void* opened(const void* closed) const {
    return open_ + (static_cast<const char*>(closed) - closed_);
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 36;  // of which what is used takes memory
  static constexpr std::size_t kAlignment = 512;

  static char* map(int file, int access) {
    void* const begin = ::mmap(nullptr, kBytes, access, MAP_SHARED | MAP_NORESERVE, file, 0);
    TORCH_CHECK(begin != MAP_FAILED, "no room for the device's memory");
    return static_cast<char*>(begin);
  }

  char *closed_ = nullptr, *open_ = nullptr;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::map<std::size_t, std::vector<char*>> free_;  ///< by the power of two that they have room for
};

/// It outlives every tensor, those of static objects, too.
Arena& arena() {
  static auto* const one = new Arena;
  return *one;
}

struct Block {
  void* begin = nullptr;
  std::size_t bytes = 0;
};

class HostDeviceAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, kDevice};
    count(static_cast<std::int64_t>(bytes));
    auto block = std::make_unique<Block>(Block{arena().take(bytes), bytes});
    void* const begin = block->begin;
    return {begin, block.release(), &release, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(arena().opened(to), arena().opened(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}
  void recordStream(const c10::DataPtr& /*data*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    const std::scoped_lock lock(mutex_);
    for (auto* sums : {&stats_.allocated_bytes, &stats_.reserved_bytes}) (*sums)[kAll].reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    const std::scoped_lock lock(mutex_);
    const std::int64_t free = kHostDeviceBytes - stats_.allocated_bytes[kAll].current;
    return {static_cast<std::size_t>(free), static_cast<std::size_t>(kHostDeviceBytes)};
  }

  void limit(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    limit_ = bytes;
  }

 private:
  static constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  static void release(void* context);

  void count(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    const std::int64_t after = stats_.allocated_bytes[kAll].current + bytes;
    TORCH_CHECK_WITH(OutOfMemoryError, after <= limit_, "the device has ", limit_,
                     " bytes for tensors, of which ", stats_.allocated_bytes[kAll].current,
                     " are taken; ", bytes, " more are asked for");
    stats_.allocation[kAll].increase(1);
    stats_.allocated_bytes[kAll].increase(static_cast<std::size_t>(bytes));
    stats_.reserved_bytes[kAll].increase(static_cast<std::size_t>(bytes));
    ++stats_.num_device_alloc;
  }
  void give_back(std::int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    stats_.allocation[kAll].decrease(1);
    stats_.allocated_bytes[kAll].decrease(static_cast<std::size_t>(bytes));
    stats_.reserved_bytes[kAll].decrease(static_cast<std::size_t>(bytes));
  }

  std::mutex mutex_;
  c10::CachingDeviceAllocator::DeviceStats stats_;
  std::int64_t limit_ = kHostDeviceBytes;
};

HostDeviceAllocator& allocator() {
  static auto* const one = new HostDeviceAllocator;
  return *one;
}

void HostDeviceAllocator::release(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (block == nullptr) return;
  arena().give_back(block->begin, block->bytes);
  allocator().give_back(static_cast<std::int64_t>(block->bytes));
}

/// Host memory that is known to be pinned.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = std::malloc(std::max<std::size_t>(bytes, 1));
    const std::scoped_lock lock(mutex_);
    pinned_.insert(data);
    return {data, data, &release, c10::DeviceType::CPU};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool has(const void* data) {
    const std::scoped_lock lock(mutex_);
    return pinned_.contains(data);
  }

 private:
  static void release(void* data);

  std::mutex mutex_;
  std::set<const void*> pinned_;
};

PinnedAllocator& pinned_allocator() {
  static auto* const one = new PinnedAllocator;
  return *one;
}

void PinnedAllocator::release(void* data) {
  PinnedAllocator& all = pinned_allocator();
  const std::scoped_lock lock(all.mutex_);
  all.pinned_.erase(data);
  std::free(data);
}

/// libtorch looks for hooks by this name.
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
  bool isPinnedPtr(const void* data) const override { return pinned_allocator().has(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
};

using at::HPUHooksRegistry, at::RegistererHPUHooksRegistry;
REGISTER_HPU_HOOKS(HPUHooks)

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
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

/// The tensor as the device's own copies see it.
at::Tensor as_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  auto* const begin = static_cast<char*>(arena().opened(tensor.storage().data()));
  return at::from_blob(begin + tensor.storage_offset() * tensor.element_size(), tensor.sizes(),
                       tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool /*non_blocking*/) {
  if (operations == 0 && to.is_cpu()) ++waits;
  if (operations == 0 && from.is_cpu() && from.numel() > 1 && !from.is_pinned()) ++pageable_copies;
  if (to.numel() == 0) return to;
  const at::AutoDispatchBelowADInplaceOrView below;
  as_host(to).copy_(as_host(from).expand(to.sizes()));
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
    // What was there is undefined afterwards: nothing of ours resizes a tensor that has values.
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(allocator().allocate(bytes));
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
  return at::detail::empty_generic(sizes, &allocator(), c10::DispatchKeySet(c10::DispatchKey::HPU),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_with_strides(at::IntArrayRef sizes, at::IntArrayRef strides,
                              std::optional<at::ScalarType> dtype,
                              std::optional<at::Layout> /*layout*/,
                              std::optional<at::Device> /*device*/,
                              std::optional<bool> /*pinned*/) {
  return at::detail::empty_strided_generic(sizes, strides, &allocator(),
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

/// Copies that are made while it lives are the device's own.
struct InOperation {
  InOperation() { ++operations; }
  ~InOperation() { --operations; }
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;
};

/// The CPU's operation, on copies.
void on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const InOperation in_operation;
  at::native::cpu_fallback(operation, stack);
}

/// One whose result the host has to wait for.
void awaited_on_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  if (operations == 0) ++waits;
  on_host(operation, stack);
}

// Devices that are not libtorch's own say how they attend and convolve under names of their own.

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
  const InOperation in_operation;
  const std::int64_t outputs = grad.size(1);
  const auto [of_input, of_weight, of_bias] = at::convolution_backward(
      grad.cpu(), input.cpu(), weight.cpu(), at::OptionalIntArrayRef({outputs}), stride, padding,
      dilation, transposed, output_padding, groups, wanted);
  const auto there = [](const at::Tensor& x) { return x.defined() ? x.to(kDevice) : x; };
  return {there(of_input), there(of_weight), there(of_bias)};
}

/// Its running statistics change, which its schema does not say.
std::tuple<at::Tensor, at::Tensor, at::Tensor> normalise_batch(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
    const std::optional<at::Tensor>& running_var, bool training, double momentum, double eps) {
  const InOperation in_operation;
  const auto here = [](const std::optional<at::Tensor>& x) {
    return x && x->defined() ? std::optional(x->cpu()) : std::nullopt;
  };
  const std::optional<at::Tensor> mean = here(running_mean), variance = here(running_var);
  const auto [out, of_mean, of_deviation] = at::native_batch_norm(
      input.cpu(), here(weight), here(bias), mean, variance, training, momentum, eps);
  if (mean) at::Tensor(*running_mean).copy_(*mean);
  if (variance) at::Tensor(*running_var).copy_(*variance);
  return {out.to(kDevice), of_mean.to(kDevice), of_deviation.to(kDevice)};
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
  for (const char* name : {"_local_scalar_dense", "equal"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&awaited_on_host>());
}

/// The part of all that a process may take, as libtorch's own allocators read it.
void take_settings(const std::string& settings) {
  constexpr std::string_view key = "per_process_memory_fraction:";
  const std::size_t at = settings.find(key);
  if (at == std::string::npos) return;
  const double part = std::stod(settings.substr(at + key.size()));
  allocator().limit(static_cast<std::int64_t>(part * static_cast<double>(kHostDeviceBytes)));
}

const bool is_there = [] {
  c10::SetAllocator(kType, &allocator());
  c10::CachingAllocator::AcceleratorAllocatorConfig::registerDeviceConfigParserHook(
      take_settings, {"per_process_memory_fraction"});
  return true;
}();

}  // namespace

void limit_host_device(std::int64_t bytes) { allocator().limit(bytes); }

std::int64_t waits_for_host_device() { return waits; }

std::int64_t pageable_copies_to_host_device() { return pageable_copies; }

}  // namespace accrue::testing
