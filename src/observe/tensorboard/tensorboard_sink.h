#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/observer.h"
#include "observe/tensorboard/events.h"
#include "observe/tensorboard/record_file.h"

namespace accrue::observe {

/// What a run is, for TensorBoard.
struct TensorboardRun {
  std::filesystem::path folder;  ///< of the event files; is made if it is not there
  std::int64_t first_step = 0;   ///< steps done already
  std::vector<HyperParameter> hyper_parameters;
  std::vector<Text> texts;
};

/// Writes what TensorBoard reads, a new file for each attempt at a run. It begins by telling
/// TensorBoard to forget what earlier files say of steps after `first_step`, as a rollback does
/// later; texts and hyper-parameters belong to the step that follows, so that they are forgotten
/// with it.
///
/// Nothing that goes wrong reaches the run: it is warned of once, on `warnings`, and what cannot be
/// written is left out. Records are whole or absent, and are not flushed to the disk; what is torn
/// of the last one as a machine goes down TensorBoard skips.
class TensorboardSink : public Observer {
 public:
  TensorboardSink(TensorboardRun run, std::ostream& warnings, std::function<double()> unix_clock);
  /// Makes a sink with warnings on stderr and the system's clock.
  explicit TensorboardSink(TensorboardRun run);

  void on_step(const StepReport& report) override;
  void on_evaluation(const Evaluation& evaluation) override;
  void on_histograms(const StepHistograms& histograms) override;
  void on_rollback(std::int64_t step) override;
  void on_end(const RunEnd& end) override;

  /// The file that is written.
  const std::filesystem::path& file() const { return file_; }

 private:
  void open();
  /// Has TensorBoard forget all steps of this attempt, and says what the run is.
  void begin_again();
  EventPlace now(std::int64_t step) const { return {.time = unix_clock_(), .step = step}; }
  void append(const std::string& event);
  void warn_once(const std::string& reason);

  TensorboardRun run_;
  std::ostream& warnings_;
  std::function<double()> unix_clock_;
  std::filesystem::path file_;
  RecordFile records_;
  std::optional<std::int64_t> samples_done_;  ///< none if they are not known yet
  bool warned_ = false;
};

}  // namespace accrue::observe
