#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/recompute.h"
#include "accrue/train/loop_plan.h"
#include "accrue/train/step.h"
#include "python/bindings.h"
#include "python/callback.h"
#include "python/held.h"
#include "python/on_self.h"
#include "python/python_optimizer.h"
#include "python/values.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

detail::SteppedModel model_of(const Named& parameters, const std::vector<at::Tensor>& buffers,
                              const MaybeCallback& batch_norms) {
  return {named_parameters_of(parameters), buffers, batch_norm_finder_of(batch_norms)};
}

/// A Stepper, the optimizer that it steps with, and the functions that it was made with.
class Stepper {
 public:
  Stepper(const Named& parameters, const std::vector<at::Tensor>& buffers,
          const MaybeCallback& batch_norms, const py::object& optimizer,
          const MaybeCallback& on_event, StepOptions options)
      : optimizer_(optimizer),
        held_(held_by({batch_norms, on_event, optimizer_.held()})),
        slices_(model_of(parameters, buffers, batch_norms), optimizer_,
                with_event_callback(on_event, std::move(options))) {}

  StepReport step(std::int64_t samples, const py::object& run) {
    const detail::RunSlice slices = run_of(callback_of(run, "step", "loss_fn"), "step");
    const py::gil_scoped_release released;
    return slices_.step(samples, slices);
  }
  std::pair<std::int64_t, std::int64_t> share(std::int64_t samples) {
    const py::gil_scoped_release released;
    return pair_of(slices_.share(samples));
  }

  const std::vector<py::object*>& held() const { return held_; }

 private:
  static StepOptions with_event_callback(const MaybeCallback& on_event, StepOptions options) {
    options.on_event = event_callback(on_event);
    return options;
  }

  PythonOptimizer optimizer_;
  std::vector<py::object*> held_;  ///< that the members own
  detail::SliceStepper slices_;
};

void bind_entry(py::module_& module) {
  py::class_<LoopPlanEntry>(module, "PlanEntry", "A micro-batch that was considered.")
      .def_readonly("micro_batch", &LoopPlanEntry::micro_batch, "samples")
      .def_readonly("micro_batches", &LoopPlanEntry::micro_batches, "of a whole batch")
      .def_readonly("predicted_peak_bytes", &LoopPlanEntry::predicted_peak_bytes)
      .def_readonly("seconds_per_sample", &LoopPlanEntry::seconds_per_sample)
      .def_readonly("within_limit", &LoopPlanEntry::within_limit);
  py::class_<LoopPlan, LoopPlanEntry>(module, "Plan", "How to run a batch in your own loop.")
      .def_readonly("batch_samples", &LoopPlan::batch_samples)
      .def_readonly("measured_peak_bytes", &LoopPlan::measured_peak_bytes)
      .def_readonly("reason", &LoopPlan::reason, "why this micro-batch")
      .def_readonly("alternatives", &LoopPlan::alternatives)
      .def("__repr__", [](const LoopPlan& plan) {
        return "accrue.Plan(" + std::to_string(plan.micro_batches) + " micro-batches of " +
               std::to_string(plan.micro_batch) + ": " + plan.reason + ")";
      });
}

LoopPlan plan(const Named& parameters, const std::vector<at::Tensor>& buffers,
              const py::object& batch_norms, const py::object& run, std::int64_t samples,
              bool repeats, std::string budget, std::int64_t batch_samples,
              std::int64_t reserve_bytes, const py::object& progress) {
  LoopPlanOptions options{
      .budget = std::move(budget), .batch_samples = batch_samples, .reserve_bytes = reserve_bytes};
  if (const MaybeCallback told = callback_of(progress, "plan", "progress"))
    options.progress = [tell = *told](const std::string& what) { tell(what); };
  const detail::PlannedLoop loop{
      .model = model_of(parameters, buffers, callback_of(batch_norms, "plan", "batch_norms")),
      .sums = nullptr,
      .run = run_of(callback_of(run, "plan", "loss_fn"), "plan"),
      .samples = samples,
      .repeats = repeats};
  const py::gil_scoped_release released;
  return detail::plan_loop(loop, options);
}

}  // namespace

void bind_steps(py::module_& module) {
  bind_entry(module);
  py::class_<Stepper>(module, "Stepper", seen_by_collector<Stepper>())
      .def(py::init([](const Named& parameters, const std::vector<at::Tensor>& buffers,
                       const py::object& batch_norms, const py::object& optimizer, double clip_norm,
                       std::int64_t micro_batch, bool accelerate, bool watch_parameters,
                       const py::object& on_event, std::shared_ptr<distributed::Group> group) {
             return std::make_unique<Stepper>(parameters, buffers,
                                              callback_of(batch_norms, "step", "batch_norms"),
                                              optimizer, callback_of(on_event, "step", "on_event"),
                                              StepOptions{.clip_norm = clip_norm,
                                                          .micro_batch = micro_batch,
                                                          .accelerate = accelerate,
                                                          .watch_parameters = watch_parameters,
                                                          .group = std::move(group)});
           }),
           py::arg("parameters"), py::arg("buffers"), py::arg("batch_norms"), py::arg("optimizer"),
           py::kw_only(), py::arg("clip_norm"), py::arg("micro_batch"), py::arg("accelerate"),
           py::arg("watch_parameters"), py::arg("on_event"), py::arg("group"))
      .def("step", on_self(&Stepper::step), py::arg("samples"), py::arg("run"))
      .def("share", on_self(&Stepper::share), py::arg("samples"));
  module.def("plan", &plan, py::arg("parameters"), py::arg("buffers"), py::arg("batch_norms"),
             py::arg("run"), py::arg("samples"), py::kw_only(), py::arg("repeats"),
             py::arg("budget"), py::arg("batch_samples"), py::arg("reserve_bytes"),
             py::arg("progress"));
}

}  // namespace accrue::python
