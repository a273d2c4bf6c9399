#pragma once

#include <cstddef>

#include "accrue/kernels/gate_activation.h"
#include "kernels/element.h"

namespace accrue::kernels::rows {

/// Single-threaded vectorised passes behind gate.h. Pointers may be unaligned; a result may share
/// the memory of any operand.

struct GateForward {
  GateActivation activation;
  Element type;
  std::size_t size;
  const void *gate, *up;
  void* out;
};

/// out = act(gate) * up.
void gate(const GateForward& task);

struct GateBackward {
  GateActivation activation;
  Element type;
  std::size_t size;
  const void *grad_out, *gate, *up;
  void *out, *grad_gate, *grad_up;
};

/// out = act(gate) * up, and the gradients of gate and up.
void gate_backward(const GateBackward& task);

}  // namespace accrue::kernels::rows
