#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "accrue/core/observer.h"
#include "core/descriptor.h"
#include "observe/metrics_account.h"

namespace accrue::observe {

/// One line of metrics.jsonl: the step's measurements under the names of docs/design.md, section 5.
/// Values that were not measured, or are not finite, are absent.
std::string to_json_line(const StepReport& report);
/// `{"step", "time", "event", "reason"}`.
std::string to_json_line(const Event& event, double time);
/// `{"step", "time", "eval_loss", "weight", "seconds"}`.
std::string to_json_line(const Evaluation& evaluation, double time);

/// The bytes of metrics.jsonl up to the end of its last whole line of step `last_step` or before.
/// The stream is at its beginning afterwards.
std::int64_t bytes_of_metrics(std::istream& metrics, std::int64_t last_step);

/// Whether the end of the file has the measurements of step `step`, or of a later one.
bool has_step(const std::filesystem::path& metrics, std::int64_t step);

/// Appends to metrics.jsonl. A line reaches the file whole or not at all, with one write, so that a
/// reader (or a crash) never sees half of one.
class JsonlSink : public Observer {
 public:
  /// `first_step`: steps already done. Lines of an earlier attempt beyond it are removed,
  /// atomically, as are torn lines. Throws a runtime Error if the file cannot be opened, and a
  /// usage Error if it contains something else than metrics, which stays as it is. If a write fails
  /// later there is one warning, on `warnings`; the run continues.
  JsonlSink(std::filesystem::path file, std::int64_t first_step, std::ostream& warnings,
            std::function<double()> unix_clock);
  /// Makes a sink with warnings on stderr and the system's clock.
  JsonlSink(std::filesystem::path file, std::int64_t first_step);
  /// Makes a sink that reports everything it writes to `account`, which outlives it, and has no
  /// warnings: the account shows lines that could not be written, or that another program removed
  /// or changed.
  JsonlSink(std::filesystem::path file, std::int64_t first_step, MetricsAccount& account);
  ~JsonlSink() override;
  JsonlSink(const JsonlSink&) = delete;
  JsonlSink& operator=(const JsonlSink&) = delete;

  void on_step(const StepReport& report) override;
  void on_evaluation(const Evaluation& evaluation) override;
  void on_event(const Event& event) override;
  void on_rollback(std::int64_t step) override;

 private:
  JsonlSink(std::filesystem::path file, std::int64_t first_step, std::ostream& warnings,
            std::function<double()> unix_clock, MetricsAccount* account);

  /// Returns why the file cannot be opened; empty if it is open.
  std::string open();
  /// `is_step` and `step` are those of the line (MetricsText).
  void append(const std::string& line, std::int64_t step, bool is_step);
  /// Returns why the line could not be written; empty if it was.
  std::string write(const std::string& line);
  void look_at_file(const std::string& line);
  void tell_of_new_content(const std::string& why);
  void warn_once(const std::string& reason);

  std::filesystem::path file_;
  std::ostream& warnings_;
  std::function<double()> unix_clock_;
  MetricsAccount own_account_;  ///< for a sink without another account
  MetricsAccount& account_;
  bool warns_ = true;
  Descriptor descriptor_;
  std::int64_t bytes_ = 0;  ///< of the file, as long as no other program writes into it
  bool warned_ = false;
};

}  // namespace accrue::observe
