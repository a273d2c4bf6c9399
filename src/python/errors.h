#pragma once

#include <pybind11/pybind11.h>

namespace accrue::python {

/// What leaves accrue arrives as Python has it: accrue.Error and those derived from it
/// (accrue/errors.py), torch.OutOfMemoryError, RuntimeError for libtorch's other errors, and what
/// Python code raised on its way through C++.
void translate_errors();

}  // namespace accrue::python
