#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace accrue::train {

/// The sum over all calls of one kernel.
struct KernelTime {
  std::string kernel;  ///< "matmul 1024x1536x384", "add_" (readable_kernel)
  bool in_backward = false;
  std::int64_t calls = 0;
  double seconds = 0;      ///< without the kernels that it called
  std::int64_t bytes = 0;  ///< size of the tensors it reads or writes, once per call; 0: unknown
  std::int64_t flops = 0;  ///< 0: negligible, or unknown
};

/// While it exists, measures the kernels of the calling thread: accrue's (core/kernel_span.h) and
/// ATen's operators, as at::RecordFunction announces them. A thread has at most one.
class KernelTimes {
 public:
  KernelTimes();
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  /// The kernels, the most time first.
  std::vector<KernelTime> by_time() const;

 private:
  struct Span;
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function);
  static void end(const at::RecordFunction& function, at::ObserverContext* context);

  at::CallbackHandle handle_;
  double in_callee_ = 0;  ///< seconds of the calls of the innermost open kernel so far
  std::map<std::pair<std::string, bool>, KernelTime> times_;  ///< by kernel and pass
};

}  // namespace accrue::train
