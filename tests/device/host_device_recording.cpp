#include "device/host_device_recording.h"

#include <ATen/ATen.h>
#include <ATen/native/CPUFallback.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/host_device_memory.h"

#if __has_include(<ATen/accelerator/Graph.h>)
#include <ATen/core/GraphImplInterface.h>
#define ACCRUE_HAS_RECORDINGS 1
#else
#define ACCRUE_HAS_RECORDINGS 0
#endif

namespace accrue::testing {
namespace {

using Steps = std::vector<std::function<void()>>;
/// The current recording; backward passes use the device from another thread.
Steps* recording = nullptr;

/// The tensor in the mapping of the device's own copies.
at::Tensor as_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  auto* const begin = static_cast<char*>(opened(tensor.storage().data()));
  return at::from_blob(begin + tensor.storage_offset() * tensor.element_size(), tensor.sizes(),
                       tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

/// Returns a tensor of the same elements, which stays unchanged if the tensor itself changes.
at::Tensor alias_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const c10::TensorImpl* const of = tensor.unsafeGetTensorImpl();
  return at::Tensor(of->shallow_copy_and_detach(of->version_counter(),
                                                /*allow_tensor_metadata_change=*/true));
}

c10::IValue with_aliases(const c10::IValue& value) {
  if (value.isTensor()) return alias_of(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(alias_of(tensor));
  return list;
}

void write_again(const c10::IValue& from, const c10::IValue& to) {
  if (to.isTensor() && to.toTensor().defined() && !to.toTensor().is_alias_of(from.toTensor()))
    copy_here(from.toTensor(), to.toTensor());
  if (!to.isTensorList()) return;
  const std::vector<at::Tensor> made = from.toTensorVector(), wanted = to.toTensorVector();
  for (std::size_t i = 0; i < wanted.size(); ++i) write_again(made[i], wanted[i]);
}

}  // namespace

thread_local int InOperation::depth_ = 0;

void copy_here(const at::Tensor& from, const at::Tensor& to) {
  if (to.numel() == 0) return;
  const at::AutoDispatchBelowADInplaceOrView below;
  as_host(to).copy_(as_host(from).expand(to.sizes()));
}

bool is_recording() { return recording != nullptr; }

void record(std::function<void()> step) {
  if (is_recording()) recording->push_back(std::move(step));
}

void expect_no_recording(const char* what) {
  TORCH_CHECK(!is_recording(), what, " is not possible while the device is recorded");
}

void do_and_record(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  if (!is_recording()) return at::native::cpu_fallback(operation, stack);
  torch::jit::Stack arguments;
  for (const c10::IValue& argument :
       torch::jit::last(*stack, operation.schema().arguments().size()))
    arguments.push_back(with_aliases(argument));
  at::native::cpu_fallback(operation, stack);
  torch::jit::Stack results;
  for (const c10::IValue& result : torch::jit::last(*stack, operation.schema().returns().size()))
    results.push_back(with_aliases(result));
  record([operation, arguments, results] {
    torch::jit::Stack again = arguments;
    at::native::cpu_fallback(operation, &again);
    for (std::size_t i = 0; i < results.size(); ++i) write_again(again[i], results[i]);
  });
}

void copy_and_record(const at::Tensor& from, const at::Tensor& to) {
  copy_here(from, to);
  record([from = alias_of(from), to = alias_of(to)] { copy_here(from, to); });
}

#if ACCRUE_HAS_RECORDINGS

namespace {

class HostDeviceGraph final : public at::GraphImplInterface {
 public:
  explicit HostDeviceGraph(const at::GraphImplArgs& /*args*/) {}
  ~HostDeviceGraph() override {
    if (recording == &steps_) recording = nullptr;
  }

  void capture_begin(c10::MempoolId_t /*pool*/, at::GraphCaptureMode /*mode*/) override {
    expect_no_recording("another recording");
    before_ = contents_of_host_device();
    recording = &steps_;
  }
  void capture_end() override {
    recording = nullptr;
    put_back_on_host_device(std::exchange(before_, {}));
  }
  void instantiate() override {}
  void replay() override {
    const InOperation in_operation;
    const at::AutoDispatchBelowADInplaceOrView below;
    for (const std::function<void()>& step : steps_) step();
  }
  void reset() override { steps_.clear(); }
  c10::MempoolId_t pool() const override { return {0, 0}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& /*path*/) override {}

 private:
  Steps steps_;
  HostDeviceContents before_;  ///< the device's contents when recording began
};

}  // namespace

#endif

}  // namespace accrue::testing

#if ACCRUE_HAS_RECORDINGS
namespace at {

REGISTER_GRAPH_IMPL(HPU, accrue::testing::HostDeviceGraph)

}  // namespace at
#endif
