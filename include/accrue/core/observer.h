#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/histogram.h"
#include "accrue/core/step_report.h"

namespace accrue {

/// Something that happened besides a step (resume, quarantine, decision), with its reason.
struct Event {
  std::string name;
  std::string reason;
  std::int64_t step = 0;
};

struct Evaluation {
  std::int64_t step = 0;
  double loss = 0;  ///< token (or sample) mean over the evaluated part of the validation data
  std::optional<double> accuracy;  ///< of a classifier, weighted as the loss
  double weight = 0;
  double seconds = 0;
  std::vector<std::string> unreadable = {};  ///< why each unreadable sample of this rank is so
  /// Each loss's own mean if there are several, and the means of what else they tell.
  std::map<std::string, double> losses = {};
};

/// What is known when a run starts.
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

/// Receives what a run does, on the thread that trains, in order. Implementations must not throw
/// for a full disk or a closed terminal: training goes on without them.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_start(const RunStart&) {}
  /// After each micro-batch: how much of the current window is done.
  virtual void on_micro_batch(std::int64_t /*done*/, std::int64_t /*total*/) {}
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const Evaluation&) {}
  /// Is called behind the step's on_step, as often as observe.histograms says.
  virtual void on_histograms(const StepHistograms&) {}
  virtual void on_event(const Event&) {}
  /// The run went back to a checkpoint: what was told of steps after `step` no longer counts.
  virtual void on_rollback(std::int64_t /*step*/) {}
  virtual void on_end(const RunEnd&) {}
};

}  // namespace accrue
