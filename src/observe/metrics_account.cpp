#include "observe/metrics_account.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/words.h"

namespace accrue::observe {
namespace {

using nlohmann::json;

constexpr const char* file_name = "metrics.jsonl";

MetricsText read_line(std::string_view text) {
  MetricsText line{.text = text, .step = {}};
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return line;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer() || step->get<std::int64_t>() < 0)
    return line;
  line.step = step->get<std::int64_t>();
  line.is_step = !object.contains("event") && !object.contains("eval_loss");
  return line;
}

void add_line(Checksum& checksum, const MetricsText& line) {
  checksum.add(line.text);
  checksum.add("\n");
}

StepRanges steps_of(const std::vector<MetricsText>& lines, std::int64_t last_step) {
  StepRanges steps;
  for (const MetricsText& line : lines)
    if (line.is_step && *line.step <= last_step) steps.add(*line.step);
  return steps;
}

/// A message on the file's losses compared with a checkpoint's record of it; empty if none.
std::string what_is_lost(const MetricsRecord& expected, const std::vector<MetricsText>& lines,
                         std::int64_t last_step) {
  const StepRanges missing = expected.steps.without(steps_of(lines, last_step));
  const bool is_as_written = digest_of_first(expected.lines, lines, last_step) == expected.digest;
  if (is_as_written && missing.is_empty()) return {};
  const auto damaged = std::ranges::count_if(lines, [](const auto& line) { return !line.step; });
  std::vector<std::string> losses;
  if (!missing.is_empty()) losses.push_back("it has no line of " + missing.in_words());
  if (damaged > 0)
    losses.push_back(counted(damaged, "line") + " that cannot be read " +
                     (damaged == 1 ? "is" : "are") + " left out");
  if (losses.empty()) losses.emplace_back("lines were changed or taken out");
  return std::string(file_name) + " is not as the run wrote it up to step " +
         std::to_string(last_step) + ": " + listed(losses, "and") + "; the run goes on";
}

}  // namespace

std::vector<MetricsText> lines_of_metrics(std::string_view content) {
  std::vector<MetricsText> lines;
  while (!content.empty()) {
    const std::size_t feed = content.find('\n');
    const bool is_whole = feed != std::string_view::npos;
    lines.push_back(read_line(content.substr(0, feed)));
    lines.back().is_last_cut = !is_whole;
    content.remove_prefix(is_whole ? feed + 1 : content.size());
  }
  return lines;
}

std::string digest_of_first(std::int64_t count, const std::vector<MetricsText>& lines,
                            std::int64_t last_step) {
  Checksum checksum;
  for (const MetricsText& line : lines) {
    if (count == 0) break;
    if (!line.step || *line.step > last_step) continue;
    add_line(checksum, line);
    --count;
  }
  return count == 0 ? checksum.text() : "";
}

void MetricsAccount::begin(const std::vector<MetricsText>& lines, std::int64_t last_step) {
  if (expected_)
    if (std::string lost = what_is_lost(*expected_, lines, last_step); !lost.empty())
      remarks_.push_back(std::move(lost));
  expected_.reset();
  count(lines, last_step);
}

void MetricsAccount::restart(const std::vector<MetricsText>& lines, const std::string& why) {
  const StepRanges told = std::exchange(steps_, {});
  count(lines, reached_);
  const StepRanges missing = told.without(steps_);
  remarks_.push_back(std::string(file_name) + " " + why + ": " +
                     (missing.is_empty() ? "it has lines of all steps"
                                         : "it has no line of " + missing.in_words()) +
                     "; the run goes on");
}

void MetricsAccount::count(const std::vector<MetricsText>& lines, std::int64_t last_step) {
  checksum_ = {};
  lines_ = 0;
  steps_ = {};
  before_ = {};
  reached_ = reached_before_ = 0;
  for (const MetricsText& line : lines)
    if (line.step && *line.step <= last_step) add(line);
}

void MetricsAccount::reach(std::int64_t step) {
  if (step <= reached_) return;
  before_ = record();
  reached_before_ = std::exchange(reached_, step);
}

void MetricsAccount::add(const MetricsText& line) {
  reach(*line.step);
  add_line(checksum_, line);
  ++lines_;
  if (line.is_step) steps_.add(*line.step);
}

void MetricsAccount::miss(const MetricsText& line, const std::string& why) {
  if (line.step) reach(*line.step);
  if (line.is_step) steps_.add(*line.step);
  failure_ = why;
}

MetricsRecord MetricsAccount::record() const {
  return {.lines = lines_, .digest = checksum_.text(), .steps = steps_};
}

std::optional<MetricsRecord> MetricsAccount::as_of(std::int64_t step) const {
  if (reached_ <= step) return record();
  return reached_before_ <= step ? std::optional(before_) : std::nullopt;
}

std::vector<std::string> MetricsAccount::take_remarks() { return std::exchange(remarks_, {}); }

}  // namespace accrue::observe
