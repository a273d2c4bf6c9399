#include "observe/report/figures.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "accrue/core/units.h"
#include "core/median.h"
#include "core/words.h"
#include "observe/history/run_result.h"

namespace accrue::observe {
namespace {

using Numbers = std::vector<double>;

std::string digits(double value, int significant) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*g", significant, value);
  return text.data();
}

std::string percent(double share) { return digits(100 * share, 3) + "%"; }

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); }

/// 118900 -> "119 kJ".
std::string energy_text(double joules) {
  std::string text = format_count(joules);
  const bool has_prefix = std::isalpha(static_cast<unsigned char>(text.back())) != 0;
  return text + (has_prefix ? "J" : " J");
}

/// The values of a column from row `first` on, without those not measured.
Numbers measured(const StepTable& table, const char* name, std::size_t first = 0) {
  const Numbers* column = table.column(name);
  Numbers values;
  if (column != nullptr)
    std::copy_if(column->begin() + static_cast<std::ptrdiff_t>(first), column->end(),
                 std::back_inserter(values), [](double value) { return !std::isnan(value); });
  return values;
}

double sum_of(const Numbers& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

class Figures {
 public:
  explicit Figures(const RunHistory& run) : run_(run), result_(result_of(run)) {
    add_losses();
    add_speed();
    add_memory();
    add_length();
  }
  std::vector<Figure> take() { return std::move(figures_); }

 private:
  void add_losses() {
    if (result_.last_loss)
      figures_.push_back({.id = "training_loss",
                          .label = "Training loss",
                          .value = *result_.last_loss,
                          .text = digits(*result_.last_loss, 5),
                          .detail = "of the last step" + mean_of_many()});
    if (!run_.evaluations.empty()) add_evaluation();
  }

  /// The loss by which runs are compared, if it is not the last step's alone.
  std::string mean_of_many() const {
    const std::int64_t steps = steps_of_last_tenth(run_.table);
    if (steps == 1 || !result_.train_loss) return "";
    return "; mean of the last " + counted(steps, "step") + " " + digits(*result_.train_loss, 5);
  }

  void add_evaluation() {
    const EvaluationPoint& last = run_.evaluations.back();
    const auto best = std::min_element(
        run_.evaluations.begin(), run_.evaluations.end(),
        [](const EvaluationPoint& a, const EvaluationPoint& b) { return a.loss < b.loss; });
    const std::string at = "at step " + digit_groups(last.step);
    figures_.push_back({.id = "eval_loss",
                        .label = "Evaluation loss",
                        .value = last.loss,
                        .text = digits(last.loss, 5),
                        .detail = best->step == last.step ? at + ", the best"
                                                          : at + "; best " + digits(best->loss, 5) +
                                                                " at " + digit_groups(best->step)});
    if (last.accuracy)
      figures_.push_back({.id = "eval_accuracy",
                          .label = "Accuracy",
                          .value = *last.accuracy,
                          .text = percent(*last.accuracy),
                          .detail = "of the evaluation " + at});
  }

  void add_speed() {
    if (result_.speed) {
      const std::string unit(speed_unit_words.of(result_.speed->unit));
      figures_.push_back({.id = unit + "_per_second",
                          .label = "Speed",
                          .value = result_.speed->per_second,
                          .text = format_count(result_.speed->per_second) + " " + unit + "/s",
                          .detail = "of all steps but the first"});
    }
    const Numbers shares = measured(run_.table, "share_of_ceiling");
    if (shares.empty()) return;
    const double median = median_of(shares);
    figures_.push_back({.id = "share_of_ceiling",
                        .label = "Share of the ceiling",
                        .value = median,
                        .text = percent(median),
                        .detail = "of the machine's best; median",
                        .part = median});
  }

  void add_memory() {
    if (!result_.peak_bytes) return;
    Figure figure{.id = "peak_bytes", .label = "Peak memory", .detail = "in tensors"};
    figure.value = *result_.peak_bytes;
    figure.text = bytes_text(figure.value);
    const Numbers budgets = measured(run_.table, "budget_bytes");
    if (!budgets.empty() && budgets.back() > 0) {
      figure.part = figure.value / budgets.back();
      figure.detail = percent(*figure.part) + " of the budget of " + bytes_text(budgets.back());
    }
    figures_.push_back(std::move(figure));
  }

  void add_length() {
    const Numbers elapsed = measured(run_.table, "elapsed");
    if (!elapsed.empty())
      figures_.push_back({.id = "time",
                          .label = "Time",
                          .value = elapsed.back(),
                          .text = format_duration(elapsed.back()),
                          .detail = time_left()});
    const Numbers joules = measured(run_.table, "joules");
    if (!joules.empty())
      figures_.push_back({.id = "energy",
                          .label = "Energy",
                          .value = sum_of(joules),
                          .text = energy_text(sum_of(joules)),
                          .detail = "of " + counted(std::ssize(joules), "measured step")});
    if (!run_.table.steps.empty()) add_steps();
  }

  void add_steps() {
    const std::int64_t steps = run_.table.steps.back();
    Figure figure{.id = "steps",
                  .label = "Steps",
                  .value = static_cast<double>(steps),
                  .text = digit_groups(steps)};
    if (run_.total_steps && *run_.total_steps > 0) {
      figure.detail = "of " + digit_groups(*run_.total_steps);
      figure.part = static_cast<double>(steps) / static_cast<double>(*run_.total_steps);
    }
    const Numbers tokens = measured(run_.table, "tokens");
    if (!tokens.empty())
      figure.detail +=
          (figure.detail.empty() ? "" : "; ") + format_count(tokens.back()) + " tokens";
    figures_.push_back(std::move(figure));
  }

  /// Shown during a run: by the pace of its last tenth, or of its last ten steps if these are
  /// more.
  std::string time_left() const {
    constexpr std::int64_t fewest_steps = 10;
    const std::int64_t rows = std::ssize(run_.table.steps);
    const auto first = static_cast<std::size_t>(
        rows - std::min(rows, std::max(fewest_steps, steps_of_last_tenth(run_.table))));
    const Numbers elapsed = measured(run_.table, "elapsed", first);
    if (run_.state != RunState::running || !run_.total_steps || elapsed.size() < 2) return "";
    const double steps = static_cast<double>(run_.table.steps.back() - run_.table.steps[first]);
    const double left = static_cast<double>(*run_.total_steps - run_.table.steps.back());
    return "about " + format_duration(left * (elapsed.back() - elapsed.front()) / steps) + " left";
  }

  const RunHistory& run_;
  RunResult result_;
  std::vector<Figure> figures_;
};

}  // namespace

std::vector<Figure> key_figures(const RunHistory& run) { return Figures(run).take(); }

}  // namespace accrue::observe
