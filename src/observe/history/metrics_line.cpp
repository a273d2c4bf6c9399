#include "observe/history/metrics_line.h"

#include <limits>

namespace accrue::observe {
namespace {

using simdjson::dom::element;

/// The depth of objects that is read: metrics have one level of nested objects.
constexpr int deepest = 4;

std::optional<double> number_of(element value) {
  double number = 0;
  return value.get_double().get(number) == simdjson::SUCCESS ? std::optional(number) : std::nullopt;
}

std::optional<std::string_view> text_of(element value) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? std::optional(text) : std::nullopt;
}

std::optional<std::int64_t> step_of(element value) {
  std::int64_t step = 0;
  const bool is_step = value.get_int64().get(step) == simdjson::SUCCESS && step >= 0;
  return is_step ? std::optional(step) : std::nullopt;
}

}  // namespace

MetricsLine::Kind MetricsLine::read(std::string_view line, StepRows& rows) {
  clear();
  rows.begin_row();
  simdjson::dom::object object;
  constexpr bool copies_line = false;
  const auto error = parser_.parse(line.data(), line.size(), copies_line).get_object().get(object);
  if (error != simdjson::SUCCESS) return Kind::unknown;
  for (const auto& [name, value] : object) take(name, value, rows);
  return kind();
}

void MetricsLine::clear() {
  has_numbers_ = false;
  step_.reset();
  time_ = std::numeric_limits<double>::quiet_NaN();
  eval_loss_.reset();
  eval_accuracy_.reset();
  event_.reset();
  reason_.clear();
}

MetricsLine::Kind MetricsLine::kind() const {
  if (!step_) return Kind::unknown;
  if (event_) return Kind::event;
  if (eval_loss_) return Kind::evaluation;
  return has_numbers_ ? Kind::step : Kind::unknown;
}

void MetricsLine::take(std::string_view name, element value, StepRows& rows) {
  if (name == "step") {
    step_ = step_of(value);
  } else if (const auto number = number_of(value)) {
    take_number(name, *number, rows);
  } else if (simdjson::dom::object object; value.get_object().get(object) == simdjson::SUCCESS) {
    path_ = name;
    take_nested(object, 1, rows);
  } else if (const auto text = text_of(value)) {
    if (name == "event") event_ = *text;
    if (name == "reason") reason_ = *text;
  }
}

void MetricsLine::take_number(std::string_view name, double number, StepRows& rows) {
  if (name == "eval_loss") {
    eval_loss_ = number;
  } else if (name == "eval_accuracy") {
    eval_accuracy_ = number;
  } else {
    if (name == "time")
      time_ = number;
    else
      has_numbers_ = true;
    rows.put(name, number);
  }
}

void MetricsLine::take_nested(simdjson::dom::object object, int depth, StepRows& rows) {
  const std::size_t length = path_.size();
  for (const auto& [name, value] : object) {
    path_.append(".").append(name);
    simdjson::dom::object inner;
    if (const auto number = number_of(value)) {
      has_numbers_ = true;
      rows.put(path_, *number);
    } else if (depth < deepest && value.get_object().get(inner) == simdjson::SUCCESS) {
      take_nested(inner, depth + 1, rows);
    }
    path_.resize(length);
  }
}

}  // namespace accrue::observe
