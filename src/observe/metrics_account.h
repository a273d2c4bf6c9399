#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/checksum.h"
#include "observe/step_ranges.h"

namespace accrue::observe {

/// What metrics.jsonl has to hold, as a checkpoint notes it.
struct MetricsRecord {
  std::int64_t lines = 0;  ///< the first ones, all of the checkpoint's step or before
  std::string digest;      ///< Checksum of these lines with their line feeds
  StepRanges steps;        ///< that the run has told of
  bool operator==(const MetricsRecord&) const = default;
};

/// A line of metrics.jsonl, as far as it is known.
struct MetricsText {
  std::string_view text;             ///< without its line feed
  std::optional<std::int64_t> step;  ///< none: the line is damaged, or no metrics
  bool is_step = false;              ///< the measurements of a step, and no event or evaluation
  bool is_last_cut = false;          ///< it lacks its line feed
};

/// The lines of a file's content.
std::vector<MetricsText> lines_of_metrics(std::string_view content);

/// The digest of the first `count` lines of `last_step` or before; empty if there are fewer.
std::string digest_of_first(std::int64_t count, const std::vector<MetricsText>& lines,
                            std::int64_t last_step);

/// Keeps account of what a run wrote into metrics.jsonl: what the next checkpoint notes of it, what
/// was lost, and whether it can be written at all. Who writes the file tells it; who trains asks.
class MetricsAccount {
 public:
  /// What the checkpoint that a run goes on from notes. Counts for the next begin().
  void expect(std::optional<MetricsRecord> expected) { expected_ = std::move(expected); }
  bool expects_lines() const { return expected_ && expected_->lines > 0; }

  /// The file is begun, or gone on with: of all its `lines` those up to `last_step` stay. Remarks
  /// on what was expected and is not there.
  void begin(const std::vector<MetricsText>& lines, std::int64_t last_step);
  /// The file's lines are others than were written, for the reason `why`, which follows the file's
  /// name. Remarks on the steps that are lost.
  void begin_again(const std::vector<MetricsText>& lines, const std::string& why);
  /// A line was written.
  void add(const MetricsText& line);
  /// A line could not be written, for the reason `why`.
  void miss(const MetricsText& line, const std::string& why);

  /// For a checkpoint of that step; none if lines of the steps behind it are between.
  std::optional<MetricsRecord> as_of(std::int64_t step) const;
  /// Why a line could not be written; empty: all were.
  const std::string& failure() const { return failure_; }
  /// What was lost of the file, a sentence each. Once.
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
  MetricsRecord before_;      ///< as it was before the first line of that step
  std::int64_t reached_before_ = 0;
  std::string failure_;
  std::vector<std::string> remarks_;
};

}  // namespace accrue::observe
