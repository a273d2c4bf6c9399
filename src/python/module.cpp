// The module accrue._native. Users call python/accrue, which explains its functions.
#include <torch/csrc/utils/pybind.h>

#include "python/bindings.h"
#include "python/errors.h"
#include "python/values.h"

PYBIND11_MODULE(_native, module) {
  using namespace accrue::python;
  translate_errors();
  bind_values(module);
  bind_ranks(module);
  bind_accumulator(module);
  bind_adapt(module);
  bind_steps(module);
  bind_memory(module);
  bind_verify(module);
  bind_windows(module);
  bind_run_log(module);
  bind_operations(module);
  bind_accelerate(module);
}
