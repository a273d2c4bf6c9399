#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/train/config.h"
#include "python/bindings.h"
#include "python/on_self.h"
#include "python/values.h"
#include "train/run/sum_stepper.h"
#include "train/run/window_worker.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

Named named_of(const NamedParameters& parameters) {
  Named named;
  for (const NamedParameter& parameter : parameters)
    named.emplace_back(parameter.name, parameter.tensor);
  return named;
}

/// Copies: the parameters themselves change in the next step.
Named copies_of(const NamedParameters& parameters) {
  const at::NoGradGuard no_grad;
  Named named;
  for (const NamedParameter& parameter : parameters)
    named.emplace_back(parameter.name, parameter.tensor.detach().cpu().clone());
  return named;
}

/// A WindowWorker, whose windows run without the interpreter.
class WindowRunner {
 public:
  explicit WindowRunner(const train::Config& config) : worker_(config) {}

  void take_place(std::int64_t first, std::int64_t total) { worker_.take_place(first, total); }
  std::string frozen_digest() const { return worker_.frozen_digest(); }
  std::int64_t samples() const { return worker_.samples(); }
  std::int64_t micro_batch() const { return worker_.micro_batch(); }
  train::DataShape shape() const { return worker_.shape(); }
  Named parameters() const { return copies_of(worker_.parameters()); }
  void load(const Named& values) { worker_.load(named_parameters_of(values)); }
  train::WindowSums run(std::int64_t index,
                        const std::vector<std::pair<std::int64_t, std::int64_t>>& draws,
                        const std::vector<int>& units) {
    std::vector<batch::Range> ranges;
    for (const auto& [begin, end] : draws) ranges.push_back({.begin = begin, .end = end});
    const py::gil_scoped_release released;
    return worker_.run(index, ranges, units);
  }

 private:
  train::WindowWorker worker_;
};

class WindowStepper {
 public:
  WindowStepper(const train::Config& config, const train::DataShape& shape)
      : stepper_(config, shape) {}

  Named parameters() const { return copies_of(stepper_.parameters()); }
  void load(const Named& values) { stepper_.load(named_parameters_of(values)); }
  std::string frozen_digest() const { return stepper_.frozen_digest(); }
  std::vector<int> units() const { return stepper_.units(); }
  std::int64_t steps() const { return stepper_.steps(); }
  std::int64_t total_steps() const { return stepper_.total_steps(); }
  std::int64_t batch_samples() const { return stepper_.batch_samples(); }
  std::int64_t windows() const { return stepper_.windows(); }
  StepReport step(const train::WindowSums& sums) {
    const py::gil_scoped_release released;
    return stepper_.step(sums);
  }
  /// (optimizer, steps, windows, units)
  py::tuple state() const {
    const train::SumStepper::State state = stepper_.state();
    return py::make_tuple(named_of(state.optimizer), state.steps, state.windows, state.units);
  }
  void load_state(const Named& optimizer, std::int64_t steps, std::int64_t windows,
                  const std::vector<int>& units) {
    stepper_.load_state({.optimizer = named_parameters_of(optimizer),
                         .steps = steps,
                         .windows = windows,
                         .units = units});
  }

 private:
  train::SumStepper stepper_;
};

train::WindowSums sums_of(double loss_sum, double weight, std::int64_t tokens,
                          std::int64_t micro_batches, std::int64_t quarantined,
                          const Named& gradients, std::vector<std::int64_t> contributions,
                          std::vector<int> units) {
  return {.loss_sum = loss_sum,
          .weight = weight,
          .tokens = tokens,
          .micro_batches = micro_batches,
          .quarantined = quarantined,
          .gradients = named_parameters_of(gradients),
          .contributions = std::move(contributions),
          .units = std::move(units)};
}

void bind_sums(py::module_& module) {
  py::class_<train::WindowSums>(module, "WindowSums")
      .def(py::init(&sums_of), py::kw_only(), py::arg("loss_sum"), py::arg("weight"),
           py::arg("tokens"), py::arg("micro_batches"), py::arg("quarantined"),
           py::arg("gradients"), py::arg("contributions"), py::arg("units"))
      .def_readonly("loss_sum", &train::WindowSums::loss_sum)
      .def_readonly("weight", &train::WindowSums::weight)
      .def_readonly("tokens", &train::WindowSums::tokens)
      .def_readonly("micro_batches", &train::WindowSums::micro_batches)
      .def_readonly("quarantined", &train::WindowSums::quarantined)
      .def_property_readonly("gradients",
                             [](const train::WindowSums& sums) { return named_of(sums.gradients); })
      .def_readonly("contributions", &train::WindowSums::contributions)
      .def_readonly("units", &train::WindowSums::units);
}

void bind_shape(py::module_& module) {
  py::class_<train::DataShape>(module, "DataShape",
                               "The part of a model's shape that data determine. Processes that "
                               "train one model agree on it.")
      .def(py::init([](std::int64_t vocab, std::vector<std::int64_t> image,
                       std::vector<std::string> classes) {
             return train::DataShape{
                 .vocab = vocab, .image = std::move(image), .classes = std::move(classes)};
           }),
           py::kw_only(), py::arg("vocab"), py::arg("image"), py::arg("classes"))
      .def_readonly("vocab", &train::DataShape::vocab)
      .def_readonly("image", &train::DataShape::image)
      .def_readonly("classes", &train::DataShape::classes)
      .def("__eq__", [](const train::DataShape& a, const train::DataShape& b) { return a == b; })
      .def("__repr__", [](const train::DataShape& shape) {
        return "accrue.DataShape(vocab=" + std::to_string(shape.vocab) + ", " +
               std::to_string(shape.image.size()) + " numbers of an image)";
      });
}

train::Config config_of(const std::string& file, const std::vector<std::string>& overrides) {
  return train::load_config(file, overrides);
}

}  // namespace

void bind_windows(py::module_& module) {
  bind_sums(module);
  bind_shape(module);
  module.def(
      "keys_of_sums",
      [](const std::string& file, const std::vector<std::string>& overrides) {
        return train::keys_of_sums(config_of(file, overrides));
      },
      py::arg("file"), py::arg("overrides"));
  py::class_<WindowRunner>(module, "WindowWorker")
      .def(py::init([](const std::string& file, const std::vector<std::string>& overrides) {
             const py::gil_scoped_release released;  // micro-batches may be tried
             return std::make_unique<WindowRunner>(config_of(file, overrides));
           }),
           py::arg("file"), py::arg("overrides"))
      .def("take_place", on_self(&WindowRunner::take_place), py::arg("first"), py::arg("total"))
      .def("frozen_digest", on_self(&WindowRunner::frozen_digest))
      .def("samples", on_self(&WindowRunner::samples))
      .def("micro_batch", on_self(&WindowRunner::micro_batch))
      .def("shape", on_self(&WindowRunner::shape))
      .def("parameters", on_self(&WindowRunner::parameters))
      .def("load", on_self(&WindowRunner::load), py::arg("values"))
      .def("run", on_self(&WindowRunner::run), py::arg("index"), py::arg("draws"),
           py::arg("units"));
  py::class_<WindowStepper>(module, "SumStepper")
      .def(py::init([](const std::string& file, const std::vector<std::string>& overrides,
                       const train::DataShape& shape) {
             const py::gil_scoped_release released;
             return std::make_unique<WindowStepper>(config_of(file, overrides), shape);
           }),
           py::arg("file"), py::arg("overrides"), py::arg("shape"))
      .def("parameters", on_self(&WindowStepper::parameters))
      .def("load", on_self(&WindowStepper::load), py::arg("values"))
      .def("frozen_digest", on_self(&WindowStepper::frozen_digest))
      .def("units", on_self(&WindowStepper::units))
      .def("steps", on_self(&WindowStepper::steps))
      .def("total_steps", on_self(&WindowStepper::total_steps))
      .def("batch_samples", on_self(&WindowStepper::batch_samples))
      .def("windows", on_self(&WindowStepper::windows))
      .def("step", on_self(&WindowStepper::step), py::arg("sums"))
      .def("state", on_self(&WindowStepper::state))
      .def("load_state", on_self(&WindowStepper::load_state), py::arg("optimizer"),
           py::arg("steps"), py::arg("windows"), py::arg("units"));
}

}  // namespace accrue::python
