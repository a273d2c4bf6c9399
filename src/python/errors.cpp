#include "python/errors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <exception>
#include <string_view>

#include "accrue/core/error.h"
#include "python/callback.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

const char* class_of(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::usage:
      return "UsageError";
    case Error::Kind::refused:
      return "RefusedError";
    case Error::Kind::runtime:
      break;
  }
  return "RunError";
}

void raise(const Error& error) {
  const py::object type = py::module_::import("accrue.errors").attr(class_of(error.kind()));
  const py::object value =
      type(error.operation(), error.expected(), error.received(), error.suggestion());
  PyErr_SetObject(type.ptr(), value.ptr());
}

void raise_out_of_memory(const char* text) {
  const py::object type = py::module_::import("torch").attr("OutOfMemoryError");
  PyErr_SetString(type.ptr(), text);
}

/// libtorch's own allocator on the CPU raises a RuntimeError.
bool says_out_of_memory(const py::error_already_set& error) {
  return std::string_view(error.what()).find("DefaultCPUAllocator") != std::string_view::npos;
}

/// Re-entrant checkpoints run backward() within backward(), which autograd refuses if it is
/// asked for stated parameters' gradients, as all of accrue asks.
bool says_reentrant(const py::error_already_set& error) {
  return error.matches(PyExc_RuntimeError) &&
         std::string_view(error.what()).find("use_reentrant=True") != std::string_view::npos;
}

/// Raises again an exception that Python code raised under autograd's engine.
void raise_again(python_error& thrown) {
  const py::gil_scoped_acquire held;
  thrown.restore();
  py::error_already_set error;
  if (!says_reentrant(error)) return error.restore();
  raise(usage_error("backward", "checkpoints that are not re-entrant",
                    "torch.utils.checkpoint with use_reentrant=True",
                    "use_reentrant=False (of a transformers model "
                    "gradient_checkpointing_kwargs={\"use_reentrant\": False})"));
}

}  // namespace

void rethrow(py::error_already_set& error) {
  const py::object out_of_memory = py::module_::import("torch").attr("OutOfMemoryError");
  if (error.matches(out_of_memory) || error.matches(PyExc_MemoryError) ||
      (error.matches(PyExc_RuntimeError) && says_out_of_memory(error)))
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  // An exception that ends a program is no error of a pass: a search for a cause must not go on.
  if (!error.matches(PyExc_Exception)) throw Ended{error};
  throw;
}

void translate_errors() {
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (Ended& ended) {
      ended.error.restore();
    } catch (python_error& error) {
      raise_again(error);
    } catch (const Error& error) {
      raise(error);
    } catch (const c10::OutOfMemoryError& error) {
      raise_out_of_memory(error.what_without_backtrace());
    } catch (const c10::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
    }
  });
}

}  // namespace accrue::python
