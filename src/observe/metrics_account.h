#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checksum.h"
#include "observe/step_ranges.h"

namespace accrue::observe {

/// The expected contents of metrics.jsonl, as a checkpoint records them.
struct MetricsRecord {
  std::int64_t lines = 0;  ///< the first ones, all of the checkpoint's step or before
  std::string digest;      ///< Checksum of these lines with their line feeds
  StepRanges steps;        ///< that the run has reported
  bool operator==(const MetricsRecord&) const = default;
};

/// A line of metrics.jsonl, as far as known.
struct MetricsText {
  std::string_view text;             ///< none if the line is damaged, or not metrics
  std::optional<std::int64_t> step;  ///< none: the line is damaged, or no metrics
  bool is_step = false;              ///< the measurements of a step, not an event or evaluation
  bool is_last_cut = false;          ///< it lacks its line feed
};

/// The lines of a file's content.
std::vector<MetricsText> lines_of_metrics(std::string_view content);

/// The digest of the first `count` lines of `last_step` or before; empty if there are fewer.
std::string digest_of_first(std::int64_t count, const std::vector<MetricsText>& lines,
                            std::int64_t last_step);

/// Records what a run wrote into metrics.jsonl: for the next checkpoint's record, for what was
/// lost, and whether it can be written at all. The sink updates it; the training queries it.
class MetricsAccount {
 public:
  /// Sets the record of the checkpoint from which a run continues, for the next begin().
  void expect(std::optional<MetricsRecord> expected) { expected_ = std::move(expected); }
  bool expects_lines() const { return expected_ && expected_->lines > 0; }

  /// The file is started or continued: of all its `lines` those up to `last_step` stay. Adds
  /// remarks on what was expected and is missing.
  void begin(const std::vector<MetricsText>& lines, std::int64_t last_step);
  /// The file's lines differ from those written, for the reason `why`, which follows the file's
  /// name. Adds remarks on the lost steps.
  void restart(const std::vector<MetricsText>& lines, const std::string& why);
  /// A line was written.
  void add(const MetricsText& line);
  /// A line could not be written, for the reason `why`.
  void miss(const MetricsText& line, const std::string& why);

  /// For a checkpoint of that step; none if lines of later steps are in between.
  std::optional<MetricsRecord> as_of(std::int64_t step) const;
  /// Why a line could not be written; empty if all were.
  const std::string& failure() const { return failure_; }
  /// The losses of the file, a sentence each; returned once.
  std::vector<std::string> take_remarks();

 private:
  void count(const std::vector<MetricsText>& lines, std::int64_t last_step);
  void reach(std::int64_t step);
  MetricsRecord record() const;

  std::optional<MetricsRecord> expected_;
  Checksum checksum_;
  std::int64_t lines_ = 0;
  StepRanges steps_;
  std::int64_t reached_ = 0;  ///< the highest step of a line
  MetricsRecord before_;      ///< its state before the first line of that step
  std::int64_t reached_before_ = 0;
  std::string failure_;
  std::vector<std::string> remarks_;
};

}  // namespace accrue::observe
