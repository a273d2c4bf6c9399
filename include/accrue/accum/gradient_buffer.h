#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/kernels/grad_slot.h"

namespace accrue::accum {

/// The main gradients of a set of parameters: one flat allocation per (device, dtype), slots in
/// reverse order of registration (about the order in which backward finishes them), each aligned to
/// 64 bytes. fp64 parameters have fp64 slots, all others fp32. Tied parameters have one slot,
/// frozen ones none.
///
/// Attaches the slots to the parameters on construction and detaches them on destruction. A
/// parameter serves one buffer at a time: Window::open takes it over, and refuses where another
/// window is open.
class GradientBuffer {
 public:
  struct Entry {
    std::string name;
    at::Tensor parameter;
    std::shared_ptr<kernels::GradSlot> slot;
  };

  /// Throws a usage Error where a parameter is no leaf, is not floating point, is already owned by
  /// an open window of another buffer, or where two names are equal.
  explicit GradientBuffer(const NamedParameters& parameters);
  ~GradientBuffer();
  GradientBuffer(const GradientBuffer&) = delete;
  GradientBuffer& operator=(const GradientBuffer&) = delete;

  /// In registration order, without frozen parameters and repeats.
  const std::vector<Entry>& entries() const { return entries_; }
  /// The flat allocations; padding between slots is zero.
  const std::vector<at::Tensor>& flat() const { return flat_; }
  std::int64_t bytes() const;

  /// Attaches the slots anew where another buffer took a parameter in the meantime. Throws a usage
  /// Error naming the parameter, and changes nothing, where a window over it is open.
  void claim();

 private:
  void release();

  std::vector<Entry> entries_;
  std::vector<at::Tensor> flat_;
};

/// Whether `.grad` of this parameter can be a view of its slot; else (fp16, bf16) it stays
/// undefined between micro-batches, and each layer's gradient pays one pass into the fp32 slot.
bool grad_can_view_slot(const GradientBuffer::Entry& entry);

}  // namespace accrue::accum
