#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "observe/history/step_rows.h"

namespace accrue::observe {

/// Reads lines of metrics.jsonl, one object each.
class MetricsLine {
 public:
  enum class Kind { step, evaluation, event, unknown };

  /// Bytes after a line that have to be readable, whatever they are.
  static constexpr std::size_t padding = simdjson::SIMDJSON_PADDING;

  /// Reads a line; the numbers of a step are put into a new row of `rows`. A line that is not a
  /// whole object with a step, or has nothing else that is known, is `unknown`.
  Kind read(std::string_view line, StepRows& rows);

  /// The contents of the last line; only call those that its kind has.
  std::int64_t step() const { return *step_; }
  double time() const { return time_; }
  double eval_loss() const { return *eval_loss_; }
  std::optional<double> eval_accuracy() const { return eval_accuracy_; }
  const std::string& event() const { return *event_; }
  const std::string& reason() const { return reason_; }

 private:
  void clear();
  Kind kind() const;
  void take(std::string_view name, simdjson::dom::element value, StepRows& rows);
  void take_number(std::string_view name, double number, StepRows& rows);
  void take_nested(simdjson::dom::object object, int depth, StepRows& rows);

  simdjson::dom::parser parser_;
  std::string path_;  ///< dotted, of the nested value being read
  bool has_numbers_ = false;
  std::optional<std::int64_t> step_;
  double time_ = 0;
  std::optional<double> eval_loss_, eval_accuracy_;
  std::optional<std::string> event_;
  std::string reason_;
};

}  // namespace accrue::observe
