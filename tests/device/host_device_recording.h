#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

namespace accrue::testing {

/// Copies of a thread while an object exists there are the device's own, and part of an operation.
class InOperation {
 public:
  InOperation() { ++depth_; }
  ~InOperation() { --depth_; }
  InOperation(const InOperation&) = delete;
  InOperation& operator=(const InOperation&) = delete;
  static int depth() { return depth_; }

 private:
  static thread_local int depth_;
};

/// Whether the device's operations are being recorded, and not done: at::accelerator::Graph has the
/// device's recordings, as CUDA has its graphs. A recording keeps the tensors of its operations,
/// and their results are undone when it ends, so that only a repetition has an effect.
bool is_recording();

/// If the device is being recorded, adds `step` to what a repetition does.
void record(std::function<void()> step);

/// Throws c10::Error if the device is being recorded: `what` needs its results.
void expect_no_recording(const char* what);

/// Does the CPU's operation, on copies, and records that if the device is being recorded.
void do_and_record(const c10::OperatorHandle& operation, torch::jit::Stack* stack);

/// `to` = `from`, by the device's own copies.
void copy_here(const at::Tensor& from, const at::Tensor& to);
/// `to` = `from`, at least one of which is on the device: done, and recorded likewise.
void copy_and_record(const at::Tensor& from, const at::Tensor& to);

}  // namespace accrue::testing
