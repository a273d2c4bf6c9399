#include "observe/progress_sink.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "accrue/core/units.h"
#include "core/printable.h"
#include "core/printable_streams.h"
#include "observe/broken_lines.h"
#include "observe/live_view.h"

namespace accrue::observe {
namespace {

constexpr double seconds_between_lines = 5;
constexpr double seconds_between_lines_within_a_step = 60;
constexpr double seconds_between_redraws = 0.1;
constexpr double seconds_of_a_long_step = 2;
constexpr int widest_bar = 30;
constexpr int narrowest_bar = 8;
constexpr int columns_per_cell = 6;  ///< of the bar's parts

/// Clears to the end of the screen: below the redrawn lines there is only what a terminal that
/// became narrower has wrapped of them.
constexpr const char* clear_the_rest = "\x1b[J";

/// Moves the cursor by this many lines, up (A) or down (B).
std::string moved(std::size_t lines, char direction) {
  return lines == 0 ? "" : "\x1b[" + std::to_string(lines) + direction;
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string loss_text(double loss) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4f", loss);
  return text.data();
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// A bar is as wide as the terminal allows, regardless of other fields, so its length is steady.
int bar_columns(int columns) {
  return std::clamp(columns / columns_per_cell, narrowest_bar, widest_bar);
}

std::string drawn_bar(double done, int columns) {
  const int cells = columns - 2;
  const int full = std::clamp(static_cast<int>(done * cells), 0, cells);
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(cells - full), '.') + "]";
}

}  // namespace

ProgressSink::ProgressSink(std::ostream& out, ProgressOptions options)
    : out_(out), options_(std::move(options)) {
  if (!options_.clock) options_.clock = monotonic_seconds;
  if (!options_.size) options_.size = [] { return TerminalSize{}; };
}

ProgressSink::ProgressSink(std::optional<ProgressStyle> stated)
    : ProgressSink(std::cerr, {.style = choose_progress_style(stated, STDERR_FILENO),
                               .clock = {},
                               .size = [] { return terminal_size(STDERR_FILENO); },
                               .utf8 = locale_is_utf8(),
                               .colours = takes_colours(STDERR_FILENO)}) {}

void ProgressSink::on_start(const RunStart& start) {
  start_ = start;
  started_ = step_began_ = last_output_ = options_.clock();
  tenths_told_ = start.total_steps > 0 ? start.first_step * 10 / start.total_steps : 0;
  print_line(start.summary);
  redraw(true);
}

void ProgressSink::on_micro_batch(std::int64_t done, std::int64_t total) {
  micro_done_ = done;
  micro_total_ = total;
  redraw(false);
  if (options_.style != ProgressStyle::lines || done == total) return;
  const double patience = last_ ? seconds_between_lines_within_a_step : seconds_between_lines;
  if (options_.clock() - last_output_ < patience) return;
  const std::int64_t step = (last_ ? last_->step : start_.first_step) + 1;
  print_line(position(step) + "  micro-batch " + std::to_string(done) + "/" +
             std::to_string(total));
}

void ProgressSink::on_step(const StepReport& report) {
  const bool first = !last_;
  if (last_ && report.seconds > 0)
    samples_per_second_ = static_cast<double>(report.samples - last_->samples) / report.seconds;
  last_ = report;
  if (report.total_steps) start_.total_steps = *report.total_steps;
  if (report.loss) losses_.add(*report.loss);
  micro_done_ = 0;
  step_began_ = options_.clock();
  redraw(first || report.step == start_.total_steps);
  if (options_.style != ProgressStyle::lines) return;
  if (!first && !step_line_is_due(options_.clock())) return;
  if (start_.total_steps > 0) tenths_told_ = report.step * 10 / start_.total_steps;
  print_line(position(report.step) + in_words(fields()));
}

void ProgressSink::on_evaluation(const Evaluation& evaluation) {
  eval_loss_ = evaluation.loss;
  std::string text = position(evaluation.step) + "  eval loss " + loss_text(evaluation.loss);
  if (evaluation.accuracy) text += "  accuracy " + loss_text(*evaluation.accuracy);
  print_line(text);
  redraw(true);
}

void ProgressSink::on_event(const Event& event) {
  // Decisions before the run starts have no position in it.
  const std::string place = start_.total_steps > 0 ? position(event.step) + "  " : "";
  print_line(place + event.name + ": " + one_line(event.reason));
  redraw(true);
}

void ProgressSink::on_end(const RunEnd& end) {
  if (end.interrupted)
    print_line(position(end.step) + "  interrupted");
  else
    redraw(true);
  if (lines_drawn_ > 0) out_ << Unescaped{moved(lines_drawn_ - 1, 'B') + "\n"} << std::flush;
  lines_drawn_ = 0;
}

std::string ProgressSink::position(std::int64_t step) const {
  const std::string total = std::to_string(start_.total_steps);
  std::string number = std::to_string(step);
  if (number.size() < total.size()) number.insert(0, total.size() - number.size(), ' ');
  return "step " + number + "/" + total;
}

std::string ProgressSink::rate() const {
  if (last_ && last_->tokens_per_second)
    return format_count(*last_->tokens_per_second) + " tokens/s";
  return samples_per_second_ ? format_count(*samples_per_second_) + " samples/s" : "";
}

std::vector<ProgressSink::Field> ProgressSink::fields() const {
  std::vector<Field> fields;
  if (!last_) return fields;
  if (last_->loss) fields.push_back({Field::loss, "  loss " + loss_text(*last_->loss)});
  if (eval_loss_) fields.push_back({Field::evaluation, "  eval " + loss_text(*eval_loss_)});
  if (!rate().empty()) fields.push_back({Field::rate, "  " + rate()});
  if (last_->peak_bytes) fields.push_back({Field::memory, "  " + format_bytes(*last_->peak_bytes)});
  if (const auto seconds = seconds_left())
    fields.push_back({Field::time_left, "  left " + format_duration(*seconds)});
  return fields;
}

std::string ProgressSink::in_words(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) text += field.text;
  return text;
}

/// Removes fields in their order of removal until the rest fits.
std::vector<ProgressSink::Field> ProgressSink::fitted(std::vector<Field> fields, int columns) {
  while (static_cast<int>(in_words(fields).size()) > columns)
    fields.erase(std::ranges::max_element(fields, {}, &Field::kind));
  return fields;
}

double ProgressSink::share_of_step() const {
  return micro_total_ > 0 ? static_cast<double>(micro_done_) / static_cast<double>(micro_total_)
                          : 0;
}

std::optional<double> ProgressSink::seconds_left() const {
  const std::int64_t step = last_ ? last_->step : start_.first_step;
  const double done = static_cast<double>(step - start_.first_step) + share_of_step();
  const double to_do = static_cast<double>(start_.total_steps - step) - share_of_step();
  if (done <= 0 || to_do <= 0) return std::nullopt;
  return (options_.clock() - started_) / done * to_do;
}

bool ProgressSink::step_line_is_due(double now) const {
  const bool last_step = last_->step == start_.total_steps;
  const bool next_tenth =
      start_.total_steps > 0 && last_->step * 10 / start_.total_steps > tenths_told_;
  return last_step || next_tenth || now - last_output_ >= seconds_between_lines;
}

bool ProgressSink::shows_micro_batches() const {
  return micro_done_ > 0 && micro_done_ < micro_total_ &&
         (!last_ || options_.clock() - step_began_ >= seconds_of_a_long_step);
}

double ProgressSink::share_of_run() const {
  const std::int64_t step = last_ ? last_->step : start_.first_step;
  return (static_cast<double>(step) + share_of_step()) / static_cast<double>(start_.total_steps);
}

std::vector<std::string> ProgressSink::live_lines() const {
  const std::int64_t step = last_ ? last_->step : start_.first_step;
  LiveStatus status{.position = std::to_string(step) + "/" + std::to_string(start_.total_steps),
                    .done = share_of_run(),
                    .seconds_left = seconds_left(),
                    .eval_loss = eval_loss_,
                    .losses = losses_,
                    .rate = rate(),
                    .batch = start_.batch,
                    .batch_in_short = start_.batch_in_short};
  if (last_) {
    status.loss = last_->loss;
    status.step_seconds = last_->seconds > 0 ? std::optional(last_->seconds) : std::nullopt;
    status.peak_bytes = last_->peak_bytes;
    status.budget_bytes = last_->budget_bytes;
    status.rank_samples = last_->rank_samples;
  }
  if (shows_micro_batches())
    status.micro_batch = std::to_string(micro_done_) + "/" + std::to_string(micro_total_);
  const TerminalSize size = options_.size();
  return live_view(status, {.columns = size.columns,
                            .rows = size.rows,
                            .utf8 = options_.utf8,
                            .colours = options_.colours});
}

std::string ProgressSink::bar_line() const {
  const int columns = std::max(options_.size().columns - 1, 1);  // the last one would wrap
  const std::int64_t step = last_ ? last_->step : start_.first_step;
  const Field bar{Field::bar, drawn_bar(share_of_run(), bar_columns(columns)) + " "};
  const std::string place = position(step);

  std::vector<Field> shown = fields();
  if (shows_micro_batches())
    shown.push_back({Field::micro_batches, "  micro-batch " + std::to_string(micro_done_) + "/" +
                                               std::to_string(micro_total_)});
  shown.insert(shown.begin(), bar);
  shown = fitted(std::move(shown), std::max(columns - static_cast<int>(place.size()), 0));
  const bool has_bar = !shown.empty() && shown.front().kind == Field::bar;
  if (has_bar) shown.erase(shown.begin());
  const std::string text = (has_bar ? bar.text : "") + place + in_words(shown);
  return text.substr(0, static_cast<std::size_t>(columns));
}

void ProgressSink::redraw(bool always) {
  const bool redraws =
      options_.style == ProgressStyle::bar || options_.style == ProgressStyle::live;
  if (!redraws || start_.total_steps == 0) return;
  const double now = options_.clock();
  if (!always && now - last_output_ < seconds_between_redraws) return;
  last_output_ = now;
  draw(options_.style == ProgressStyle::bar ? std::vector{bar_line()} : live_lines());
}

/// The cursor rests at the beginning of the first line, where it stays when the terminal is
/// resized, however the terminal wraps the lines then. A key that was pressed (^C) may have moved
/// it. Texts in the lines are already printable().
void ProgressSink::draw(const std::vector<std::string>& lines) {
  std::string bytes = "\r" + lines.front() + clear_the_rest;
  for (std::size_t i = 1; i < lines.size(); ++i) bytes += "\n" + lines[i];
  lines_drawn_ = lines.size();
  out_ << Unescaped{bytes + "\r" + moved(lines_drawn_ - 1, 'A')} << std::flush;
}

void ProgressSink::print_line(const std::string& text) {
  if (options_.style == ProgressStyle::off || text.empty()) return;
  last_output_ = options_.clock();
  const std::string wipe = lines_drawn_ > 0 ? std::string("\r") + clear_the_rest : "";
  lines_drawn_ = 0;
  const std::string line = printable(text);
  const bool is_for_a_log = options_.style == ProgressStyle::lines;
  out_ << Unescaped{wipe + (is_for_a_log ? line : broken_at_words(line, options_.size().columns)) +
                    "\n"}
       << std::flush;
}

}  // namespace accrue::observe
