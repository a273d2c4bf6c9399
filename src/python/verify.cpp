#include "accrue/verify/verify.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings.h"
#include "python/callback.h"
#include "python/held.h"
#include "python/values.h"
#include "verify/report_fields.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

/// A model as Python describes it: python/accrue/verify.py.
struct Described {
  Named parameters, buffers;
  MaybeCallback batch_norms, evaluate;
  std::int64_t samples;
  MaybeCallback loss, loss_in_double;

  std::vector<py::object*> held() const {
    return held_by({batch_norms, evaluate, loss, loss_in_double});
  }
};

detail::VerifiedModel model_of(const Described& described) {
  detail::VerifiedModel model;
  model.parameters = named_parameters_of(described.parameters);
  model.buffers = named_parameters_of(described.buffers);
  model.samples = described.samples;
  model.loss = run_of(described.loss, "verify");
  model.loss_in_double = run_of(described.loss_in_double, "verify");
  model.batch_norms = batch_norm_finder_of(described.batch_norms);
  if (described.evaluate) {
    model.evaluate = [evaluate = *described.evaluate](bool batch_norms_alone) {
      return evaluate.call(
          [](const py::object& undo) -> std::function<void()> {
            return [undo = Callback(undo)] { undo(); };
          },
          batch_norms_alone);
    };
    model.freezes_batch_norms = true;
  }
  return model;
}

/// Makes a dict of what has fields (verify/report_fields.h).
struct FieldsOf {
  template <class Value>
  static py::object value_of(const Value& value) {
    return py::cast(value);
  }
  static py::object value_of(const std::vector<proof::ParameterError>& parts) {
    return list_of(parts);
  }
  static py::object value_of(const std::vector<proof::SmallestFault>& parts) {
    return list_of(parts);
  }
  template <class Part>
  static py::list list_of(const std::vector<Part>& parts) {
    py::list list;
    for (const Part& part : parts) list.append(dict_of(part));
    return list;
  }
  template <class Whole>
  static py::dict dict_of(const Whole& whole) {
    py::dict fields;
    proof::each_field(whole,
                      [&](const char* name, const auto& value) { fields[name] = value_of(value); });
    return fields;
  }
};

/// The fields of `accrue verify --json` that the package's Report has, and the loop's factor.
py::dict dict_of(const proof::Report& report) {
  py::dict fields = FieldsOf::dict_of(report);
  fields["factor"] = report.factor;
  return fields;
}

/// The report of causes that Python found by itself.
py::dict dict_of_causes(const std::vector<std::string>& causes, double error, double bound) {
  proof::Report report{.equal = causes.empty(), .max_relative_error = error, .bound = bound};
  for (const std::string& word : causes) {
    const proof::Cause cause = proof::cause_words.parse(word, "a report", "one of these");
    if (report.cause == proof::Cause::none) {
      report.cause = cause;
    } else {
      report.besides.push_back(cause);
    }
  }
  return dict_of(report);
}

}  // namespace

void bind_verify(py::module_& module) {
  py::class_<Described>(module, "Described", seen_by_collector<Described>())
      .def(py::init([](Named parameters, Named buffers, const py::object& batch_norms,
                       const py::object& evaluate, std::int64_t samples, const py::object& loss,
                       const py::object& loss_in_double) {
             return Described{std::move(parameters),
                              std::move(buffers),
                              callback_of(batch_norms, "verify", "batch_norms"),
                              callback_of(evaluate, "verify", "evaluate"),
                              samples,
                              callback_of(loss, "verify", "loss_fn"),
                              callback_of(loss_in_double, "verify", "loss_fn")};
           }),
           py::kw_only(), py::arg("parameters"), py::arg("buffers"), py::arg("batch_norms"),
           py::arg("evaluate"), py::arg("samples"), py::arg("loss"), py::arg("loss_in_double"));
  module.def(
      "verify",
      [](const Described& described, std::vector<std::int64_t> micro_batches, int noise_draws,
         std::uint64_t seed) {
        const detail::VerifiedModel model = model_of(described);
        const VerifyOptions options{
            .micro_batches = std::move(micro_batches), .noise_draws = noise_draws, .seed = seed};
        proof::Report report;
        {
          const py::gil_scoped_release released;
          report = detail::verify_model(model, options);
        }
        return dict_of(report);
      },
      py::arg("described"), py::kw_only(), py::arg("micro_batches"), py::arg("noise_draws"),
      py::arg("seed"));
  module.def(
      "verify_loop",
      [](const Described& described, const py::object& loop, std::int64_t micro_batch,
         int noise_draws, std::uint64_t seed) {
        const detail::VerifiedModel model = model_of(described);
        const Callback run(loop);
        const VerifyOptions options{
            .loop_micro_batch = micro_batch, .noise_draws = noise_draws, .seed = seed};
        proof::Report report;
        {
          const py::gil_scoped_release released;
          report = detail::verify_loop(
              model, [&](std::int64_t micro) { run(micro); }, options);
        }
        return dict_of(report);
      },
      py::arg("described"), py::arg("loop"), py::kw_only(), py::arg("micro_batch"),
      py::arg("noise_draws"), py::arg("seed"));
  module.def("describe_causes", &dict_of_causes, py::arg("causes"), py::arg("error"),
             py::arg("bound"));
}

}  // namespace accrue::python
