#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>

namespace accrue::models {

/// While it lives, this thread's operations on the CPU are in bf16 where libtorch's autocasting has
/// them so, as under torch.autocast.
class Autocasting {
 public:
  Autocasting()
      : was_enabled_(at::autocast::is_autocast_enabled(at::kCPU)),
        dtype_before_(at::autocast::get_autocast_dtype(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocasting() {
    // Casts are kept within one use alone: the next one may see other weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, was_enabled_);
    at::autocast::set_autocast_dtype(at::kCPU, dtype_before_);
  }
  Autocasting(const Autocasting&) = delete;
  Autocasting& operator=(const Autocasting&) = delete;

 private:
  bool was_enabled_;
  at::ScalarType dtype_before_;
};

}  // namespace accrue::models
