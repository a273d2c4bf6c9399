#include "accum/slot_binding.h"

namespace accrue::accum {

void bind(const GradientBuffer::Entry& entry) {
  at::Tensor& grad = entry.parameter.mutable_grad();
  if (!shows_sum(entry)) {
    grad.reset();
  } else if (!grad.is_same(entry.slot->bound)) {
    grad = entry.slot->bound;
  }
}

void make_fresh(const GradientBuffer::Entry& entry) {
  entry.slot->fresh = true;
  entry.slot->contributions = 0;
  entry.slot->unfinished = false;
  entry.slot->passed_by = false;
  entry.slot->found_non_finite = false;
  entry.slot->found_too_large = false;
  entry.slot->bound_version = entry.slot->bound._version();
}

}  // namespace accrue::accum
