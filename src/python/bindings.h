#pragma once

#include <pybind11/pybind11.h>

/// The parts of the module accrue._native, each of which adds its own names.
namespace accrue::python {

void bind_accelerate(pybind11::module_& module);
void bind_accumulator(pybind11::module_& module);
void bind_adapt(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_operations(pybind11::module_& module);
void bind_ranks(pybind11::module_& module);
void bind_run_log(pybind11::module_& module);
void bind_steps(pybind11::module_& module);
void bind_verify(pybind11::module_& module);
void bind_windows(pybind11::module_& module);

}  // namespace accrue::python
