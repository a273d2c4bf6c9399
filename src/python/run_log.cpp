#include <pybind11/stl.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "accrue/core/clock.h"
#include "accrue/core/observer.h"
#include "observe/jsonl_sink.h"
#include "observe/tensorboard/tensorboard_sink.h"
#include "python/bindings.h"
#include "python/on_self.h"

namespace py = pybind11;

namespace accrue::python {
namespace {

using HyperParameters = std::map<std::string, std::variant<bool, double, std::string>>;

/// metrics.jsonl and tb/ of a run that Python makes, as the command writes them.
class RunLog {
 public:
  RunLog(const std::filesystem::path& folder, std::int64_t first_step, bool tensorboard,
         const HyperParameters& hyper_parameters)
      : metrics_(folder / "metrics.jsonl", first_step), first_step_(first_step) {
    if (!tensorboard) return;
    observe::TensorboardRun run{.folder = folder / "tb", .first_step = first_step};
    for (const auto& [name, value] : hyper_parameters)
      run.hyper_parameters.push_back({name, value});
    events_ = std::make_unique<observe::TensorboardSink>(std::move(run));
  }

  /// `samples` and `tokens` are those so far.
  void step(StepReport report, std::optional<double> lr, std::optional<std::int64_t> samples,
            std::optional<std::int64_t> tokens) {
    report.step += first_step_;
    if (lr) report.lr = lr;
    if (samples) report.samples = *samples;
    if (tokens) {
      report.tokens = tokens;
      if (tokens_ || first_step_ == 0)
        report.tokens_per_second =
            static_cast<double>(*tokens - tokens_.value_or(0)) / report.seconds;
      tokens_ = tokens;
    }
    report.time = unix_time();
    report.elapsed = since_start_.seconds();
    tell([&](Observer& sink) { sink.on_step(report); });
  }
  void evaluation(std::int64_t step, double loss, double weight) {
    const Evaluation evaluation{.step = step, .loss = loss, .weight = weight};
    tell([&](Observer& sink) { sink.on_evaluation(evaluation); });
  }
  void event(std::string name, std::string reason, std::int64_t step) {
    const Event event{std::move(name), std::move(reason), step};
    tell([&](Observer& sink) { sink.on_event(event); });
  }
  void end(std::int64_t step, bool failed) {
    tell([&](Observer& sink) { sink.on_end({.step = step, .failed = failed}); });
  }

 private:
  template <class Tell>
  void tell(const Tell& tell) {
    tell(metrics_);
    if (events_) tell(*events_);
  }

  observe::JsonlSink metrics_;
  std::unique_ptr<observe::TensorboardSink> events_;
  std::int64_t first_step_;
  std::optional<std::int64_t> tokens_;  ///< so far; none before the first step that is logged
  Stopwatch since_start_;
};

}  // namespace

void bind_run_log(py::module_& module) {
  py::class_<RunLog>(module, "RunLog")
      .def(py::init([](const std::string& folder, std::int64_t first_step, bool tensorboard,
                       const HyperParameters& hyper_parameters) {
             return std::make_unique<RunLog>(folder, first_step, tensorboard, hyper_parameters);
           }),
           py::arg("folder"), py::arg("first_step"), py::arg("tensorboard"),
           py::arg("hyper_parameters"))
      .def("step", on_self(&RunLog::step), py::arg("report"), py::arg("lr"), py::arg("samples"),
           py::arg("tokens"))
      .def("evaluation", on_self(&RunLog::evaluation), py::arg("step"), py::arg("loss"),
           py::arg("weight"))
      .def("event", on_self(&RunLog::event), py::arg("name"), py::arg("reason"), py::arg("step"))
      .def("end", on_self(&RunLog::end), py::arg("step"), py::arg("failed"));
}

}  // namespace accrue::python
