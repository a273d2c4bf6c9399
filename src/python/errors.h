#pragma once

#include <pybind11/pybind11.h>

namespace accrue::python {

/// Exceptions that leave accrue arrive as Python's: accrue.Error and those derived from it
/// (accrue/errors.py), torch.OutOfMemoryError, RuntimeError for libtorch's other errors, and what
/// Python code raised on its way through C++.
void translate_errors();

}  // namespace accrue::python
