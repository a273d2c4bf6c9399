#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "accrue/adapt/batch_controller.h"
#include "accrue/adapt/noise_scale.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

void bind_noise(py::module_& module) {
  using adapt::NoiseScale;
  py::class_<NoiseScale>(module, "NoiseScale",
                         "A noise scale with its spread, in units of weight, or in those that it "
                         "was made with.")
      .def(py::init([](std::optional<double> value, double low, std::optional<double> high,
                       double variance) {
             return NoiseScale{.value = value, .low = low, .high = high, .variance = variance};
           }),
           py::arg("value"), py::arg("low") = 0, py::arg("high") = py::none(),
           py::arg("variance") = 0)
      .def_readonly("value", &NoiseScale::value)
      .def_readonly("low", &NoiseScale::low)
      .def_readonly("high", &NoiseScale::high)
      .def_readonly("variance", &NoiseScale::variance)
      .def("in_units", &adapt::in_units, py::arg("factor"));
}

void bind_decisions(py::module_& module) {
  using adapt::BatchDecision;
  py::class_<BatchDecision>(module, "BatchDecision", "The batch from the next window on, and why.")
      .def_readonly("batch", &BatchDecision::batch)
      .def_readonly("rate_left", &BatchDecision::rate_left)
      .def_readonly("reason", &BatchDecision::reason);
  module.def(
      "decide_batch",
      [](const std::string& rule, double batch, double base_batch, double least, double most,
         double quantum, double one_pass, std::optional<adapt::NoiseScale> noise,
         std::int64_t windows_measured, double windows_wanted, std::optional<double> rate_left) {
        return adapt::decide_batch(
            adapt::batch_rule_words.parse(rule, "decide_batch(rule=...)", "rule=\"noise-scale\""),
            {.least = least, .most = most, .quantum = quantum, .one_pass = one_pass},
            {.batch = batch,
             .base_batch = base_batch,
             .noise = std::move(noise),
             .windows_measured = windows_measured,
             .windows_wanted = windows_wanted,
             .rate_left = rate_left});
      },
      py::arg("rule"), py::kw_only(), py::arg("batch"), py::arg("base_batch"), py::arg("least"),
      py::arg("most"), py::arg("quantum"), py::arg("one_pass"), py::arg("noise"),
      py::arg("windows_measured"), py::arg("windows_wanted"), py::arg("rate_left"));
}

void bind_rates(py::module_& module) {
  constexpr const char* advice = "lr_rule=\"sqrt\"";
  module.def(
      "rate_factor",
      [](const std::string& rule, double batch, double base_batch,
         const std::optional<adapt::NoiseScale>& noise) {
        return adapt::rate_factor(adapt::rate_rule_words.parse(rule, "rate_factor", advice), batch,
                                  base_batch, noise);
      },
      py::arg("rule"), py::arg("batch"), py::arg("base_batch"), py::arg("noise"));
  module.def(
      "beta2_at",
      [](double beta2, const std::string& rule, double batch, double base_batch) {
        return adapt::beta2_at(beta2, adapt::rate_rule_words.parse(rule, "beta2_at", advice), batch,
                               base_batch);
      },
      py::arg("beta2"), py::arg("rule"), py::arg("batch"), py::arg("base_batch"));
}

}  // namespace

void bind_adapt(py::module_& module) {
  bind_noise(module);
  bind_decisions(module);
  bind_rates(module);
}

}  // namespace accrue::python
