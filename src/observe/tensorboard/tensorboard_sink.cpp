#include "observe/tensorboard/tensorboard_sink.h"

#include <iostream>
#include <utility>

#include "accrue/core/clock.h"
#include "core/printable.h"
#include "observe/tensorboard/event_files.h"
#include "observe/tensorboard/scalars.h"

namespace accrue::observe {

TensorboardSink::TensorboardSink(TensorboardRun run, std::ostream& warnings,
                                 std::function<double()> unix_clock)
    : run_(std::move(run)), warnings_(warnings), unix_clock_(std::move(unix_clock)) {
  if (run_.first_step == 0) samples_done_ = 0;
  open();
}

TensorboardSink::TensorboardSink(TensorboardRun run)
    : TensorboardSink(std::move(run), std::cerr, unix_time) {}

void TensorboardSink::open() {
  std::error_code error;
  std::filesystem::create_directory(run_.folder, error);
  file_ = new_event_file(run_.folder, unix_clock_());
  if (error) return warn_once(error.message());
  if (const std::string reason = records_.create(file_); !reason.empty()) return warn_once(reason);
  append(version_event(unix_clock_()));
  restart();
}

void TensorboardSink::restart() {
  const EventPlace first = now(run_.first_step + 1);
  append(restart_event(first));
  append(session_start_event(first, run_.hyper_parameters));
  append(texts_event(first, run_.texts));
}

/// A window without a step is not a point of a curve.
void TensorboardSink::on_step(const StepReport& report) {
  const std::optional<std::int64_t> samples_before = std::exchange(samples_done_, report.samples);
  if (!report.stepped) return;
  std::vector<Scalar> scalars = scalars_of(report);
  if (samples_before && report.seconds > 0) {
    const auto samples = static_cast<double>(report.samples - *samples_before);
    scalars.push_back({"train/samples_per_second", static_cast<float>(samples / report.seconds)});
  }
  append(scalars_event({.time = report.time, .step = report.step}, scalars));
}

void TensorboardSink::on_evaluation(const Evaluation& evaluation) {
  append(scalars_event(now(evaluation.step), scalars_of(evaluation)));
}

void TensorboardSink::on_histograms(const StepHistograms& histograms) {
  const EventPlace place = now(histograms.step);
  if (!histograms.gradients.empty())
    append(histograms_event(place, "gradients/", histograms.gradients));
  if (!histograms.weights.empty()) append(histograms_event(place, "weights/", histograms.weights));
}

void TensorboardSink::on_rollback(std::int64_t step) {
  samples_done_.reset();
  if (step <= run_.first_step)
    restart();
  else
    append(restart_event(now(step + 1)));
}

/// The page keeps what it read first, so only the last attempt may have an end there.
void TensorboardSink::on_end(const RunEnd& end) {
  if (!end.interrupted && !end.failed) append(session_done_event(now(end.step)));
}

void TensorboardSink::append(const std::string& event) {
  if (const std::string reason = records_.append(event); !reason.empty()) warn_once(reason);
}

void TensorboardSink::warn_once(const std::string& reason) {
  if (warned_) return;
  warned_ = true;
  warnings_ << "warning: write " << printable(file_.string()) << ": " << printable(reason)
            << "; training goes on, and TensorBoard does not see all of it" << std::endl;
}

}  // namespace accrue::observe
