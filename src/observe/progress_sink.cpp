#include "accrue/observe/progress_sink.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "accrue/core/units.h"

namespace accrue::observe {
namespace {

constexpr double seconds_between_lines = 5;
constexpr double seconds_between_lines_within_a_step = 60;
constexpr double seconds_between_redraws = 0.1;
constexpr int widest_bar = 30;
constexpr int narrowest_bar = 8;

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
  if (!options_.width) options_.width = [] { return 80; };
}

ProgressSink::ProgressSink(const std::string& setting)
    : ProgressSink(std::cerr, {.style = choose_progress_style(setting, STDERR_FILENO),
                               .clock = {},
                               .width = [] { return terminal_width(STDERR_FILENO); }}) {}

void ProgressSink::on_start(const RunStart& start) {
  start_ = start;
  started_ = last_output_ = options_.clock();
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
  micro_done_ = 0;
  redraw(first || report.step == start_.total_steps);
  if (options_.style != ProgressStyle::lines) return;
  if (!first && !step_line_is_due(options_.clock())) return;
  if (start_.total_steps > 0) tenths_told_ = report.step * 10 / start_.total_steps;
  print_line(position(report.step) + measurements());
}

void ProgressSink::on_evaluation(const Evaluation& evaluation) {
  eval_loss_ = evaluation.loss;
  std::string text = position(evaluation.step) + "  eval loss " + loss_text(evaluation.loss);
  if (evaluation.accuracy) text += "  accuracy " + loss_text(*evaluation.accuracy);
  print_line(text);
  redraw(true);
}

void ProgressSink::on_event(const Event& event) {
  // Decisions that are taken before the run starts have no place in it.
  const std::string place = start_.total_steps > 0 ? position(event.step) + "  " : "";
  print_line(place + event.name + ": " + one_line(event.reason));
  redraw(true);
}

void ProgressSink::on_end(const RunEnd& end) {
  if (end.interrupted) print_line(position(end.step) + "  interrupted");
  redraw(true);
  if (bar_drawn_) out_ << "\n" << std::flush;
  bar_drawn_ = false;
}

std::string ProgressSink::position(std::int64_t step) const {
  const std::string total = std::to_string(start_.total_steps);
  std::string number = std::to_string(step);
  if (number.size() < total.size()) number.insert(0, total.size() - number.size(), ' ');
  return "step " + number + "/" + total;
}

std::string ProgressSink::measurements() const {
  std::string text;
  if (last_->loss) text += "  loss " + loss_text(*last_->loss);
  if (eval_loss_) text += "  eval " + loss_text(*eval_loss_);
  if (last_->tokens_per_second)
    text += "  " + format_count(*last_->tokens_per_second) + " tokens/s";
  else if (samples_per_second_)
    text += "  " + format_count(*samples_per_second_) + " samples/s";
  if (last_->peak_bytes) text += "  " + format_bytes(*last_->peak_bytes);
  return text + time_left();
}

std::string ProgressSink::time_left() const {
  const std::int64_t done = last_->step - start_.first_step;
  const std::int64_t to_do = start_.total_steps - last_->step;
  if (done <= 0 || to_do <= 0) return "";
  const double per_step = (options_.clock() - started_) / static_cast<double>(done);
  return "  left " + format_duration(per_step * static_cast<double>(to_do));
}

bool ProgressSink::step_line_is_due(double now) const {
  const bool last_step = last_->step == start_.total_steps;
  const bool next_tenth =
      start_.total_steps > 0 && last_->step * 10 / start_.total_steps > tenths_told_;
  return last_step || next_tenth || now - last_output_ >= seconds_between_lines;
}

std::string ProgressSink::bar_line() const {
  const auto columns = static_cast<std::size_t>(std::max(options_.width() - 1, 1));
  const std::int64_t step = last_ ? last_->step : start_.first_step;
  std::string text = position(step);
  if (last_) text += measurements();
  if (micro_done_ > 0 && micro_done_ < micro_total_)
    text += "  micro-batch " + std::to_string(micro_done_) + "/" + std::to_string(micro_total_);
  const auto room = static_cast<int>(columns) - static_cast<int>(text.size()) - 1;
  if (room >= narrowest_bar) {
    const double within =
        micro_total_ > 0 ? static_cast<double>(micro_done_) / static_cast<double>(micro_total_) : 0;
    const double share = start_.total_steps > 0 ? (static_cast<double>(step) + within) /
                                                      static_cast<double>(start_.total_steps)
                                                : 0;
    text = drawn_bar(share, std::min(room, widest_bar)) + " " + text;
  }
  return text.substr(0, columns);
}

void ProgressSink::redraw(bool always) {
  if (options_.style != ProgressStyle::bar || start_.total_steps == 0) return;
  const double now = options_.clock();
  if (!always && now - last_output_ < seconds_between_redraws) return;
  last_output_ = now;
  bar_drawn_ = true;
  out_ << "\r" << bar_line() << "\x1b[K" << std::flush;
}

void ProgressSink::print_line(const std::string& text) {
  if (options_.style == ProgressStyle::off || text.empty()) return;
  last_output_ = options_.clock();
  if (bar_drawn_) out_ << "\r\x1b[K";
  bar_drawn_ = false;
  out_ << text << "\n" << std::flush;
}

}  // namespace accrue::observe
