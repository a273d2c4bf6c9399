#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/histogram.h"
#include "accrue/core/step_report.h"

namespace accrue {

/// An event other than a step (resume, quarantine, decision), with its reason.
struct Event {
  std::string name;
  std::string reason;
  std::int64_t step = 0;
};

struct Evaluation {
  std::int64_t step = 0;
  double loss = 0;  ///< token (or sample) mean over the evaluated part of the validation data
  std::optional<double> accuracy;  ///< of a classifier, weighted like the loss
  double weight = 0;
  double seconds = 0;
  std::vector<std::string> unreadable = {};  ///< why samples of this rank were unreadable
  /// The mean of each loss if there are several, and the means of their other measures.
  std::map<std::string, double> losses = {};
};

/// The facts of a run at its start.
struct RunStart {
  std::int64_t first_step = 0;  ///< steps already done (0 unless resumed)
  std::int64_t total_steps = 0;
  std::int64_t parameters = 0;
  std::string summary;         ///< one line for people: model, batch, micro-batch, precision
  std::string batch;           ///< the effective batch with its factors, for people
  std::string batch_in_short;  ///< "8 x 4 x 2 = 64 samples"
};

struct RunEnd {
  std::int64_t step = 0;
  bool interrupted = false;
  bool failed = false;
};

/// Receives the events of a run, in order, on the training thread. Implementations must not throw
/// because a disk is full or a terminal is closed: training continues without them.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunStart&) {}
  /// Called after each micro-batch with the progress of the current window.
  virtual void on_micro_batch(std::int64_t /*done*/, std::int64_t /*total*/) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const Evaluation&) {}
  /// Called after the step's on_step, at the interval observe.histograms.
  virtual void on_histograms(const StepHistograms&) {}
  virtual void on_event(const Event&) {}
  /// The run went back to a checkpoint: reports of steps after `step` are no longer valid.
  virtual void on_rollback(std::int64_t /*step*/) {}
  virtual void on_end(const RunEnd&) {}
};

}  // namespace accrue
