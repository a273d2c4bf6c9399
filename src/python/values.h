#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/core/loss.h"
#include "accrue/core/observer.h"
#include "accrue/core/parameter.h"

/// Values that go from one language to the other.
namespace accrue::python {

/// The loss that a user's function returned: an accrue.Loss. Throws a usage Error of `operation`
/// for all else, a tensor above all, which is the mean more often than the sum.
Loss loss_of(pybind11::handle value, const char* operation);
/// The losses of a list, or of an accrue.Loss alone.
std::vector<Loss> losses_of(pybind11::handle value, const char* operation);
/// accrue.Tokens, accrue.Samples or None. Throws a usage Error of `operation` for all else.
BatchSize batch_size_of(pybind11::handle value, const char* operation);
/// Pairs (name, tensor).
NamedParameters named_parameters_of(
    const std::vector<std::pair<std::string, at::Tensor>>& parameters);

/// Makes Loss, Tokens, Samples, Event, MicroRef and StepReport known to Python.
void bind_values(pybind11::module_& module);

}  // namespace accrue::python
