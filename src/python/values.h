#pragma once

#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>
#include <vector>

#include "accrue/accum/accumulator.h"
#include "accrue/core/loss.h"
#include "accrue/core/observer.h"
#include "accrue/core/parameter.h"
#include "accrue/train/step.h"
#include "python/callback.h"

/// Values that go from one language to the other.
namespace accrue::python {

/// Parameters or buffers as Python lists them: (name, tensor).
using Named = std::vector<std::pair<std::string, at::Tensor>>;

/// The name of a value's type, for errors.
std::string type_of(pybind11::handle value);

/// The loss that a user's function returned: an accrue.Loss. Throws a usage Error of `operation`
/// for all else, a tensor above all, which is the mean more often than the sum.
Loss loss_of(pybind11::handle value, const char* operation);
/// The losses of a list or tuple.
std::vector<Loss> losses_of(pybind11::handle value, const char* operation);
/// accrue.Tokens, accrue.Samples or None. Throws a usage Error of `operation` for all else.
BatchSize batch_size_of(pybind11::handle value, const char* operation);
NamedParameters named_parameters_of(const Named& parameters);
/// `function(begin, end)` runs these samples and returns their accrue.Loss; null if there is
/// none.
detail::RunSlice run_of(const MaybeCallback& function, const char* operation);
/// (begin, end)
std::pair<std::int64_t, std::int64_t> pair_of(const accum::WindowShare& share);

/// Makes Loss, Tokens, Samples, Event, MicroRef and StepReport known to Python.
void bind_values(pybind11::module_& module);

}  // namespace accrue::python
