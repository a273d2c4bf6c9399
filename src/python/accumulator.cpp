#include "accrue/accum/accumulator.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/distributed/group.h"
#include "python/bindings.h"
#include "python/callback.h"
#include "python/held.h"
#include "python/on_self.h"
#include "python/python_optimizer.h"
#include "python/values.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

using WithoutInterpreter = py::call_guard<py::gil_scoped_release>;

constexpr const char* operation = "Accumulator";

struct Options {
  py::object batch;
  MaybeCallback replay, on_event, batch_norms;
  std::int64_t micro_batches;
  std::string accumulate;
  double clip_norm;
  bool check_finite;
  bool watch_parameters;
  std::int64_t max_quarantined;
  bool split_out_of_memory;
  bool measure_noise;
  std::shared_ptr<distributed::Group> group;
};

std::function<Loss(const MicroRef&)> replay_of(const MaybeCallback& function) {
  if (!function) return {};
  return [replay = *function](const MicroRef& micro) {
    return replay.call([](const py::object& loss) { return loss_of(loss, "Accumulator.replay"); },
                       micro);
  };
}

AccumulatorOptions options_of(const Options& stated) {
  AccumulatorOptions options;
  options.batch = batch_size_of(stated.batch, operation);
  options.micro_batches = stated.micro_batches;
  options.accumulate = accum::accumulation_words.parse(
      stated.accumulate, "Accumulator(accumulate=...)", "accumulate=\"fp32\"");
  options.clip_norm = stated.clip_norm;
  options.check_finite = stated.check_finite;
  options.watch_parameters = stated.watch_parameters;
  options.max_quarantined = stated.max_quarantined;
  options.split_out_of_memory = stated.split_out_of_memory;
  options.measure_noise = stated.measure_noise;
  options.replay = replay_of(stated.replay);
  options.group = stated.group;
  options.on_event = event_callback(stated.on_event);
  return options;
}

/// An Accumulator, and the functions that it was made with.
class PythonAccumulator {
 public:
  PythonAccumulator(const Named& parameters, const Options& stated)
      : held_(held_by({stated.replay, stated.on_event, stated.batch_norms})),
        accumulator_(named_parameters_of(parameters), options_of(stated),
                     batch_norm_finder_of(stated.batch_norms)) {}

  void backward(const py::object& loss, const py::object& size,
                std::vector<std::int64_t> sample_ids) {
    const BatchSize units = batch_size_of(size, "Accumulator.backward");
    if (py::isinstance<py::list>(loss) || py::isinstance<py::tuple>(loss)) {
      std::vector<Loss> losses = losses_of(loss, "Accumulator.backward");
      const py::gil_scoped_release released;
      return accumulator_.backward(std::move(losses), units, std::move(sample_ids));
    }
    Loss one = loss_of(loss, "Accumulator.backward");
    const py::gil_scoped_release released;
    accumulator_.backward(std::move(one), units, std::move(sample_ids));
  }
  void expect(std::vector<double> totals, std::vector<double> coefficients) {
    accumulator_.expect({std::move(totals), std::move(coefficients)});
  }
  StepReport step(const py::object& optimizer) {
    PythonOptimizer taken(optimizer);
    const py::gil_scoped_release released;
    return accumulator_.step(taken);
  }
  StepReport finish(const py::object& optimizer) {
    PythonOptimizer taken(optimizer);
    const py::gil_scoped_release released;
    return accumulator_.finish(taken);
  }
  std::pair<std::int64_t, std::int64_t> share(const py::object& size) {
    const BatchSize units = batch_size_of(size, "Accumulator.share");
    const py::gil_scoped_release released;
    return pair_of(accumulator_.share(units));
  }
  void set_batch(const py::object& size) {
    accumulator_.set_batch(batch_size_of(size, "Accumulator.set_batch"));
  }
  bool full() const { return accumulator_.full(); }
  bool pending() const { return accumulator_.pending(); }
  void next_is_last() { accumulator_.next_is_last(); }
  void discard() { accumulator_.discard(); }
  double weight() const { return accumulator_.current_window().ledger().committed_weight(); }

  const std::vector<py::object*>& held() const { return held_; }

 private:
  std::vector<py::object*> held_;  ///< that the accumulator's functions own
  Accumulator accumulator_;
};

}  // namespace

void bind_accumulator(py::module_& module) {
  py::class_<PythonAccumulator>(module, "Accumulator", seen_by_collector<PythonAccumulator>())
      .def(
          py::init([](const Named& parameters, py::object batch, std::int64_t micro_batches,
                      std::string accumulate, double clip_norm, bool check_finite,
                      bool watch_parameters, std::int64_t max_quarantined, bool split_out_of_memory,
                      bool measure_noise, const py::object& replay, const py::object& on_event,
                      const py::object& batch_norms, std::shared_ptr<distributed::Group> group) {
            return std::make_unique<PythonAccumulator>(
                parameters,
                Options{.batch = std::move(batch),
                        .replay = callback_of(replay, operation, "replay"),
                        .on_event = callback_of(on_event, operation, "on_event"),
                        .batch_norms = callback_of(batch_norms, operation, "batch_norms"),
                        .micro_batches = micro_batches,
                        .accumulate = std::move(accumulate),
                        .clip_norm = clip_norm,
                        .check_finite = check_finite,
                        .watch_parameters = watch_parameters,
                        .max_quarantined = max_quarantined,
                        .split_out_of_memory = split_out_of_memory,
                        .measure_noise = measure_noise,
                        .group = std::move(group)});
          }),
          py::arg("parameters"), py::kw_only(), py::arg("batch"), py::arg("micro_batches"),
          py::arg("accumulate"), py::arg("clip_norm"), py::arg("check_finite"),
          py::arg("watch_parameters"), py::arg("max_quarantined"), py::arg("split_out_of_memory"),
          py::arg("measure_noise"), py::arg("replay"), py::arg("on_event"), py::arg("batch_norms"),
          py::arg("group"))
      .def("backward", on_self(&PythonAccumulator::backward))
      .def("expect", on_self(&PythonAccumulator::expect), WithoutInterpreter())
      .def("set_batch", on_self(&PythonAccumulator::set_batch))
      .def("full", on_self(&PythonAccumulator::full))
      .def("pending", on_self(&PythonAccumulator::pending))
      .def("step", on_self(&PythonAccumulator::step))
      .def("finish", on_self(&PythonAccumulator::finish))
      .def("share", on_self(&PythonAccumulator::share))
      .def("next_is_last", on_self(&PythonAccumulator::next_is_last))
      .def("discard", on_self(&PythonAccumulator::discard), WithoutInterpreter())
      .def("weight", on_self(&PythonAccumulator::weight));
}

}  // namespace accrue::python
