#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "accrue/accum/gradient_buffer.h"

namespace accrue::accum {

/// Evenly spread elements of a buffer's parameters and sums on a device, gathered and compared
/// there by a few kernels for all: the host only waits in found().
class DeviceSamples {
 public:
  /// `buffer` is kept by reference. Without `parameters`, only sums are recorded.
  DeviceSamples(const GradientBuffer& buffer, bool parameters);

  /// Records the current parameters and sums, and clears earlier findings.
  void begin_window();
  void see_sums() { seen_sums_ = bytes_of_sums(); }
  /// Notes the bytes of the sums that differ from the recorded ones.
  void compare_sums();
  struct Found {
    std::size_t index = 0;  ///< of the buffer's entry
    bool is_parameter = false;
  };
  /// The changes since begin_window(), with those of current parameters: one copy to the host.
  std::vector<Found> found();

 private:
  /// Bytes [begin, end) of all gathered ones belong to one entry.
  struct Part {
    std::size_t index = 0;
    std::int64_t begin = 0, end = 0;
  };
  /// Elements of a one-dimensional tensor; all of them if `elements` is undefined.
  struct SampledElements {
    at::Tensor flat, elements;
    at::Tensor values() const { return elements.defined() ? flat.index_select(0, elements) : flat; }
  };
  struct Parameters {
    std::vector<std::size_t> of;         ///< entries of one dtype
    std::vector<SampledElements> taken;  ///< of them, in order
    std::vector<const void*> places;     ///< their addresses when `taken` was made
  };
  static SampledElements taken_of(const at::Tensor& parameter);
  void make_sums();
  void group_parameters();
  void renew_places(Parameters& group) const;
  at::Tensor bytes_of_parameters();
  at::Tensor bytes_of_sums() const;

  const GradientBuffer& buffer_;
  std::vector<Parameters> parameters_;
  std::vector<SampledElements> sums_;  ///< of the flat buffers
  std::vector<Part> parts_of_parameters_, parts_of_sums_;
  at::Tensor seen_parameters_, seen_sums_, differs_;
};

}  // namespace accrue::accum
