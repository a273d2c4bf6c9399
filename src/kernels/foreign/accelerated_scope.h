#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKey.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "accrue/core/forward_context.h"
#include "accrue/core/parameter.h"
#include "accrue/kernels/accelerate.h"

namespace accrue::kernels {

/// Under this key libtorch's dispatcher finds accrue's operations, where the thread includes it. It
/// comes before all of autograd, and no tensor on the CPU carries it: libtorch keeps it for
/// autocasting on a device of somebody else's.
inline constexpr c10::DispatchKey accelerated_key = c10::DispatchKey::AutocastPrivateUse1;

/// What an Accelerated knows, in the list of those that live on its thread.
class AcceleratedScope {
 public:
  AcceleratedScope(const NamedParameters& parameters, std::uint64_t seed);
  ~AcceleratedScope();
  AcceleratedScope(const AcceleratedScope&) = delete;
  AcceleratedScope& operator=(const AcceleratedScope&) = delete;

  /// The last one made on this thread, or null.
  static AcceleratedScope* innermost();
  /// The last one made on this thread for a model that has `parameter`, or null.
  static AcceleratedScope* of(const at::Tensor& parameter);

  void begin(std::vector<std::int64_t> sample_ids, std::int64_t window);
  /// Samples of the pass that runs; 0: not known.
  std::int64_t samples() const { return static_cast<std::int64_t>(context_.sample_ids.size()); }
  const ForwardContext& context() const { return context_; }
  /// What tells the next dropout of the pass from those before it.
  std::int64_t next_site() { return sites_++; }

  AcceleratedCalls calls;

 private:
  /// The tensors are kept, so that no other gets the address of one.
  std::unordered_map<const c10::TensorImpl*, at::Tensor> parameters_;
  ForwardContext context_;
  std::int64_t sites_ = 0;
  AcceleratedScope* outer_;
};

}  // namespace accrue::kernels
