#include "python/values.h"

#include <ATen/ATen.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/kernels/grad_slot.h"
#include "observe/jsonl_sink.h"
#include "python/callback.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

std::string in_words(py::handle value) {
  if (value.is_none()) return "None";
  return "a value of type " + type_of(value);
}

double number_of(py::handle value, const char* what) {
  try {
    if (THPVariable_Check(value.ptr())) return THPVariable_Unpack(value.ptr()).item<double>();
    return value.cast<double>();
  } catch (const std::exception&) {
    throw usage_error("Loss", std::string(what) + " that is one number", in_words(value),
                      "Loss(sum over the terms, how many there were)");
  }
}

at::Tensor sum_of(py::handle value) {
  if (!THPVariable_Check(value.ptr())) return at::scalar_tensor(number_of(value, "a sum"));
  const at::Tensor sum = THPVariable_Unpack(value.ptr());
  if (sum.numel() == 1 && at::isFloatingType(sum.scalar_type())) return sum.reshape({});
  throw usage_error("Loss", "a sum that is one floating-point number",
                    c10::str("a tensor ", sum.scalar_type(), ' ', sum.sizes()),
                    "Loss(loss.sum(), loss.numel())");
}

/// The weight is a number that nothing is differentiated by: the gradient through it would be lost.
double weight_of(py::handle value) {
  if (THPVariable_Check(value.ptr()) && THPVariable_Unpack(value.ptr()).requires_grad())
    throw usage_error("Loss", "a weight that requires no gradient",
                      "one that depends on parameters",
                      "weight.detach(), where it only counts, or a loss whose terms have their "
                      "weights in the sum");
  return number_of(value, "a weight");
}

Loss make_loss(py::handle sum, py::handle weight) {
  Loss loss{.sum = sum_of(sum), .weight = weight_of(weight)};
  if (!std::isfinite(loss.weight) || loss.weight < 0)
    throw usage_error("Loss", "a finite weight of at least 0", std::to_string(loss.weight),
                      "how many terms the sum has");
  return loss;
}

/// A batch size. True and False are no counts.
std::int64_t stated_count(py::handle value, const char* unit) {
  const auto refused = [unit](const std::string& received) {
    return usage_error(unit, "a whole number of at least 1", received,
                       "the size of an optimizer step, as " + std::string(unit) + "(256)");
  };
  if (PyBool_Check(value.ptr())) throw refused(in_words(value));
  std::int64_t count = 0;
  try {
    count = py::module_::import("operator").attr("index")(value).cast<std::int64_t>();
  } catch (const std::exception&) {
    throw refused(PyLong_Check(value.ptr()) ? py::str(value).cast<std::string>() : in_words(value));
  }
  if (count < 1) throw refused(std::to_string(count));
  return count;
}

template <class Unit>
void bind_unit(py::module_& module, const char* name, const char* help) {
  py::class_<Unit>(module, name, help)
      .def(py::init([name](const py::object& count) { return Unit{stated_count(count, name)}; }),
           py::arg("count"))
      .def_readonly("count", &Unit::count)
      .def("__eq__", [](const Unit& a, const Unit& b) { return a == b; })
      .def("__hash__", [](const Unit& unit) { return std::hash<std::int64_t>()(unit.count); })
      .def("__repr__", [name](const Unit& unit) {
        return "accrue." + std::string(name) + "(" + std::to_string(unit.count) + ")";
      });
}

py::dict fields_of(const StepReport& report) {
  return py::module_::import("json").attr("loads")(observe::to_json_line(report));
}

/// The report of a window that Python kept.
StepReport report_of(std::int64_t step, bool stepped, double weight, std::optional<double> loss,
                     double grad_norm, std::int64_t micro_batches, std::int64_t quarantined,
                     std::int64_t world, double seconds) {
  StepReport report;
  report.step = step;
  report.stepped = stepped;
  report.weight = weight;
  report.loss = loss;
  report.grad_norm = grad_norm;
  report.micro_batches = micro_batches;
  report.quarantined = quarantined;
  report.world = world;
  report.seconds = seconds;
  return report;
}

void bind_report(py::module_& module) {
  py::class_<StepReport>(module, "StepReport",
                         "One optimizer step, as measured. Names and units are those of "
                         "metrics.jsonl; what was not measured is None.")
      .def_static("of", &report_of, py::kw_only(), py::arg("step"), py::arg("stepped"),
                  py::arg("weight"), py::arg("loss"), py::arg("grad_norm"),
                  py::arg("micro_batches"), py::arg("quarantined"), py::arg("world"),
                  py::arg("seconds"))
      .def_readonly("step", &StepReport::step, "1 after the first optimizer step")
      .def_readonly("stepped", &StepReport::stepped,
                    "False: total weight 0 or a dropped window; nothing was changed")
      .def_readonly("samples", &StepReport::samples, "cumulative")
      .def_readonly("tokens", &StepReport::tokens, "cumulative, None if not counted")
      .def_readonly("weight", &StepReport::weight, "terms in this step's loss")
      .def_readonly("loss", &StepReport::loss, "mean over `weight`")
      .def_readonly("losses", &StepReport::losses)
      .def_readonly("grad_norm", &StepReport::grad_norm, "of the mean gradient, before clipping")
      .def_readonly("noise_scale", &StepReport::noise_scale,
                    "tr(Sigma) / |G|^2 in units of `weight`, smoothed; None if not measured")
      .def_readonly("noise_scale_low", &StepReport::noise_scale_low,
                    "the lower end of an interval that holds the truth 9 times in 10")
      .def_readonly("noise_scale_high", &StepReport::noise_scale_high,
                    "the upper end, None if there is none")
      .def_readonly("gradient_variance", &StepReport::gradient_variance,
                    "tr(Sigma) per unit of weight, smoothed")
      .def_readonly("lr", &StepReport::lr)
      .def_readonly("micro_batch", &StepReport::micro_batch, "samples in the largest micro-batch")
      .def_readonly("micro_batches", &StepReport::micro_batches, "of all ranks")
      .def_readonly("batch_samples", &StepReport::batch_samples)
      .def_readonly("batch_tokens", &StepReport::batch_tokens)
      .def_readonly("seconds", &StepReport::seconds)
      .def_readonly("peak_bytes", &StepReport::peak_bytes)
      .def_readonly("quarantined", &StepReport::quarantined, "micro-batches taken out of the step")
      .def_readonly("retries", &StepReport::retries, "times that memory ran out")
      .def_readonly("world", &StepReport::world, "ranks")
      .def_readonly("batchnorm", &StepReport::batchnorm,
                    "'micro' where batch normalisation took the statistics of micro-batches")
      .def("to_dict", &fields_of, "What metrics.jsonl has of it.")
      .def("__repr__", [](const StepReport& report) {
        return "accrue.StepReport(" + observe::to_json_line(report) + ")";
      });
}

/// When the last post-accumulate hook of a tensor is removed torch keeps the empty place, which is
/// in the way of a window's own.
void forget_removed_hooks(const at::Tensor& tensor) {
  constexpr const char* place = "_post_accumulate_grad_hooks";
  const py::object seen = py::cast(tensor);
  const py::object hooks = seen.attr(place);
  if (!py::isinstance<py::dict>(hooks) || py::len(hooks) > 0) return;
  seen.attr(place) = py::none();
  if (kernels::slot_of(tensor) == nullptr)
    torch::autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
}

}  // namespace

std::string type_of(py::handle value) {
  return py::str(py::type::handle_of(value).attr("__name__")).cast<std::string>();
}

Loss loss_of(py::handle value, const char* operation) {
  if (py::isinstance<Loss>(value)) return value.cast<Loss>();
  if (THPVariable_Check(value.ptr()))
    throw usage_error(operation, "accrue.Loss(sum, weight) from the loss function", "a tensor",
                      "the sum of the loss's terms and how many there are: of a mean over n "
                      "terms, accrue.Loss(mean * n, n)");
  throw usage_error(operation, "accrue.Loss(sum, weight) from the loss function", in_words(value),
                    "return accrue.Loss(loss.sum(), loss.numel())");
}

std::vector<Loss> losses_of(py::handle value, const char* operation) {
  std::vector<Loss> losses;
  for (const py::handle item : py::reinterpret_borrow<py::iterable>(value))
    losses.push_back(loss_of(item, operation));
  return losses;
}

BatchSize batch_size_of(py::handle value, const char* operation) {
  if (value.is_none()) return {};
  if (py::isinstance<Tokens>(value)) return value.cast<Tokens>();
  if (py::isinstance<Samples>(value)) return value.cast<Samples>();
  throw usage_error(operation, "a size in its unit", in_words(value),
                    "accrue.Tokens(524_288) or accrue.Samples(256)");
}

detail::RunSlice run_of(const MaybeCallback& function, const char* operation) {
  if (!function) return {};
  return [run = *function, operation](std::int64_t begin, std::int64_t end) {
    return run.call([operation](const py::object& loss) { return loss_of(loss, operation); }, begin,
                    end);
  };
}

std::pair<std::int64_t, std::int64_t> pair_of(const accum::WindowShare& share) {
  return {share.begin, share.end};
}

NamedParameters named_parameters_of(const Named& parameters) {
  NamedParameters named;
  for (const auto& [name, tensor] : parameters) {
    forget_removed_hooks(tensor);
    named.push_back({name, tensor});
  }
  return named;
}

void bind_values(py::module_& module) {
  bind_unit<Tokens>(module, "Tokens", "A batch size in input tokens that are not padding.");
  bind_unit<Samples>(module, "Samples", "A batch size in samples: sequences, images, rows.");
  py::class_<Loss>(module, "Loss",
                   "A loss as its parts: `sum` over the terms (a scalar tensor or a number), and "
                   "`weight`, how many terms there were (a number or a tensor of one).")
      .def(py::init(&make_loss), py::arg("sum"), py::arg("weight"))
      .def_readonly("sum", &Loss::sum)
      .def_readonly("weight", &Loss::weight)
      .def_property_readonly("mean", [](const Loss& loss) { return loss.sum / loss.weight; })
      .def("__repr__", [](const Loss& loss) {
        return c10::str("accrue.Loss(", loss.sum.item<double>(), ", ", loss.weight, ")");
      });
  py::class_<Event>(module, "Event", "Something that happened besides a step, with its reason.")
      .def(py::init([](std::string name, std::string reason, std::int64_t step) {
             return Event{std::move(name), std::move(reason), step};
           }),
           py::arg("name"), py::arg("reason"), py::arg("step"))
      .def_readonly("name", &Event::name)
      .def_readonly("reason", &Event::reason)
      .def_readonly("step", &Event::step)
      .def("__repr__", [](const Event& event) {
        return "accrue.Event(" + event.name + ": " + event.reason + ")";
      });
  py::class_<MicroRef>(module, "MicroRef", "Names one micro-batch of a window.")
      .def_readonly("index", &MicroRef::index, "position in the window")
      .def_readonly("sample_ids", &MicroRef::sample_ids)
      .def_readonly("weight", &MicroRef::weight);
  bind_report(module);
}

}  // namespace accrue::python
