#pragma once

#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

namespace accrue::models {

/// While it exists, this thread's operations on a kind of device run in bf16 or fp16 where
/// libtorch's autocasting defines that, as under torch.autocast.
class Autocasting {
 public:
  Autocasting(c10::DeviceType device, at::ScalarType dtype)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::increment_nesting();
  }
  ~Autocasting() {
    // Casts are cached within one use only: the next one may see other weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }
  Autocasting(const Autocasting&) = delete;
  Autocasting& operator=(const Autocasting&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType dtype_before_;
};

}  // namespace accrue::models
