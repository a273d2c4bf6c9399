#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accum/device_samples.h"

namespace accrue::accum {

/// Detects writes to a window's parameters and sums that change no version counter: those through
/// data(), such as those of libtorch's SGD, clip_grad_norm_, clip_grad_value_ and
/// vector_to_parameters. It compares a few elements of each with their former bits.
///
/// On the CPU the elements are read in place. Those with the largest sums among many are selected,
/// since a step changes them most, clipping reduces them first, and most rows of an embedding have
/// none. On a device the elements are spread evenly, gathered by a kernel or two, and compared
/// there: only on_device() waits for the result.
class ContentWatch {
 public:
  /// `buffer` is kept by reference. Without `parameters`, only sums are compared.
  explicit ContentWatch(const GradientBuffer& buffer, bool parameters = true);
  ~ContentWatch();
  ContentWatch(const ContentWatch&) = delete;
  ContentWatch& operator=(const ContentWatch&) = delete;

  /// The window opens: its parameters must not change from here on.
  void begin_window();
  /// The sums must not change until the next micro-batch begins.
  void see_sums();
  /// Other code, such as a reduction over ranks, writes to the sums: they are not compared until
  /// see_sums() is called again after see_own_sums().
  void leave_sums() { leaves_sums_ = true; }
  void see_own_sums() { leaves_sums_ = false; }
  /// Accepts everything as it is.
  void see_all();

  /// These compare entry `index` with its recorded elements. False for tensors on a device.
  bool parameter_changed(std::size_t index) const;
  bool sum_changed(std::size_t index) const;

  /// Compares sums on a device with the recorded ones, without waiting.
  void compare_sums_on_device();
  /// The changes on a device since begin_window(); the host waits for them.
  using Found = DeviceSamples::Found;
  std::vector<Found> found_on_device();

 private:
  static constexpr std::size_t kElements = 8;
  /// Elements of one entry, and their bits.
  struct Sample {
    std::array<std::int64_t, kElements> at{};
    std::array<std::uint64_t, kElements> parameter{}, sum{};
    std::size_t count = 0;
    bool has_sum = false;  ///< `sum` was recorded
    bool chosen = false;   ///< by the sums
    bool judged = false;   ///< whether it changes with them, in this window
  };

  void see_parameter(std::size_t index);
  void see_sum(std::size_t index);
  bool moves(std::size_t index) const;
  void search_largest(std::size_t index);

  const GradientBuffer& buffer_;
  bool parameters_;
  std::vector<Sample> samples_;  ///< in order of the buffer's entries; empty for a device
  std::unique_ptr<DeviceSamples> on_device_;
  bool leaves_sums_ = false;
};

}  // namespace accrue::accum
