#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Evenly spread elements of a buffer's parameters and sums on a device, gathered and compared
/// there by a few kernels for all: the host waits in found() alone.
class DeviceSamples {
 public:
  /// `buffer` is kept by reference. Without `parameters`, sums alone are seen.
  DeviceSamples(const GradientBuffer& buffer, bool parameters);

  /// Sees parameters and sums as they are, and forgets what was found.
  void begin_window();
  void see_sums() { seen_sums_ = bytes_of_sums(); }
  /// Notes which bytes of the sums differ from those that were seen.
  void compare_sums();
  struct Found {
    std::size_t index = 0;  ///< of the buffer's entry
    bool is_parameter = false;
  };
  /// What changed since begin_window(), parameters as they are now: one copy to the host.
  std::vector<Found> found();

 private:
  /// Bytes [begin, end) of all that are gathered are of one entry.
  struct Part {
    std::size_t index = 0;
    std::int64_t begin = 0, end = 0;
  };
  /// Elements of a tensor of one dimension; all of them where `elements` is undefined.
  struct Taken {
    at::Tensor flat, elements;
    at::Tensor values() const { return elements.defined() ? flat.index_select(0, elements) : flat; }
  };
  struct Parameters {
    std::vector<std::size_t> of;      ///< entries of one dtype
    std::vector<Taken> taken;         ///< of them, in order
    std::vector<const void*> places;  ///< where they lay when `taken` was made
  };
  static Taken taken_of(const at::Tensor& parameter);
  void make_sums();
  void group_parameters();
  void renew_places(Parameters& group) const;
  at::Tensor bytes_of_parameters();
  at::Tensor bytes_of_sums() const;

  const GradientBuffer& buffer_;
  std::vector<Parameters> parameters_;
  std::vector<Taken> sums_;  ///< of the flat buffers
  std::vector<Part> parts_of_parameters_, parts_of_sums_;
  at::Tensor seen_parameters_, seen_sums_, differs_;
};

}  // namespace accrue::accum
