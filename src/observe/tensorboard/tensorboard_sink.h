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

/// The description of a run, for TensorBoard.
struct TensorboardRun {
  std::filesystem::path folder;  ///< of the event files; created if it does not exist
  std::int64_t first_step = 0;   ///< steps done already
  std::vector<HyperParameter> hyper_parameters;
  std::vector<Text> texts;
};

/// Writes TensorBoard's event files, a new one for each attempt at a run. It begins by making
/// TensorBoard discard steps after `first_step` in earlier files, as a rollback does later;
/// texts and hyper-parameters belong to the following step, so that they are discarded with
/// it.
///
/// Errors do not affect the run: there is one warning, on `warnings`, and what cannot be written is
/// left out. Records are whole or absent, and are not flushed to the disk; TensorBoard skips the
/// torn rest of the last one when a machine goes down.
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
  /// Makes TensorBoard discard all steps of this attempt, and writes the run's description.
  void restart();
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
