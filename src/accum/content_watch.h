#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accum/device_samples.h"

namespace accrue::accum {

/// What tells of writes to a window's parameters and sums that no version counter counts: those
/// through data(), as libtorch's SGD, clip_grad_norm_, clip_grad_value_ and vector_to_parameters
/// make them. A few elements of each are compared with what they were, bit by bit.
///
/// On the CPU these are read where they lie; those with the largest sums among many that are looked
/// at once are taken, since a step moves them most, clipping cuts them first, and of an embedding
/// most rows have none. On a device the elements are spread evenly, gathered by a kernel or two,
/// and compared there: nobody waits for it but whoever asks on_device().
class ContentWatch {
 public:
  /// `buffer` is kept by reference. Without `parameters`, sums alone are compared.
  explicit ContentWatch(const GradientBuffer& buffer, bool parameters = true);
  ~ContentWatch();
  ContentWatch(const ContentWatch&) = delete;
  ContentWatch& operator=(const ContentWatch&) = delete;

  /// The window opens: its parameters are to stay as they are now.
  void begin_window();
  /// The sums are to stay as they are until the next micro-batch begins.
  void see_sums();
  /// Somebody else, such as a reduction over ranks, writes to the sums: they are not compared until
  /// see_sums() is called again after see_own_sums().
  void leave_sums() { leaves_sums_ = true; }
  void see_own_sums() { leaves_sums_ = false; }
  /// All is accepted as it is now.
  void see_all();

  /// These compare entry `index` with what was seen. False of tensors on a device.
  bool parameter_changed(std::size_t index) const;
  bool sum_changed(std::size_t index) const;

  /// Compares sums on a device with what was seen, without waiting.
  void compare_sums_on_device();
  /// What changed on a device since begin_window(); the host waits for it.
  using Found = DeviceSamples::Found;
  std::vector<Found> found_on_device();

 private:
  static constexpr std::size_t kElements = 8;
  /// Elements of one entry, and their bits.
  struct Sample {
    std::array<std::int64_t, kElements> at{};
    std::array<std::uint64_t, kElements> parameter{}, sum{};
    std::size_t count = 0;
    bool has_sum = false;  ///< `sum` was seen
    bool chosen = false;   ///< by the sums
    bool judged = false;   ///< whether it moves with them, in this window
  };

  void see_parameter(std::size_t index);
  void see_sum(std::size_t index);
  bool moves(std::size_t index) const;
  void search_largest(std::size_t index);

  const GradientBuffer& buffer_;
  bool parameters_;
  std::vector<Sample> samples_;  ///< in order of the buffer's entries; of a device's none
  std::unique_ptr<DeviceSamples> on_device_;
  bool leaves_sums_ = false;
};

}  // namespace accrue::accum
