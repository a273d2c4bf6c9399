#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>

namespace accrue::testing {

/// Copies that a thread makes while one lives there are the device's own, and part of an operation.
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

/// Whether what the device is asked for is being recorded, and not done: at::accelerator::Graph has
/// the device's recordings, as CUDA has its graphs. A recording keeps the tensors of its
/// operations, and what they wrote is undone when it ends, so that only repeating it does anything.
bool is_recording();

/// If the device is recorded, has repeating it do `step`, too.
void record(std::function<void()> step);

/// Throws c10::Error if the device is recorded: `what` needs its results.
void expect_no_recording(const char* what);

/// Does the CPU's operation, on copies, and records that if the device is recorded.
void do_and_record(const c10::OperatorHandle& operation, torch::jit::Stack* stack);

/// `to` = `from`, by the device's own copies.
void copy_here(const at::Tensor& from, const at::Tensor& to);
/// `to` = `from`, of which one at least is the device's: done, and recorded likewise.
void copy_and_record(const at::Tensor& from, const at::Tensor& to);

}  // namespace accrue::testing
