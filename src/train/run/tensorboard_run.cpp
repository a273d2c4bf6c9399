#include "train/run/tensorboard_run.h"

#include <type_traits>
#include <utility>

#include "accrue/core/recompute.h"
#include "core/words.h"
#include "train/config/key.h"

namespace accrue::train {
namespace {

/// Numbers and booleans keep their types; all else is text in TOML syntax, without quotes around a
/// single word.
decltype(observe::HyperParameter::value) hyper_parameter_of(const Value& value) {
  if (const auto* truth = value.as<bool>()) return *truth;
  if (const auto number = value.number()) return *number;
  if (const auto* text = value.as<std::string>()) return *text;
  return to_toml(value);
}

std::vector<observe::HyperParameter> hyper_parameters_of(const Config& config) {
  std::vector<observe::HyperParameter> parameters;
  for (const Key& key : keys()) {
    if (key.name == "run.out" || !is_read(key, config)) continue;
    if (const auto value = key.get(config))
      parameters.push_back({key.name, hyper_parameter_of(*value)});
  }
  return parameters;
}

using Row = std::pair<std::string, std::string>;

/// A Markdown table.
std::string table_of(const std::vector<Row>& rows) {
  std::string text = "| | |\n|---|---|\n";
  for (const auto& [name, value] : rows) text += "| " + name + " | " + value + " |\n";
  return text;
}

std::string plan_in_markdown(const RunPlan& plan) {
  std::vector<Row> rows{
      {"parameters", digit_groups(plan.parameters)},
      {"batch", in_words(plan.effective)},
      {"micro-batch", counted(plan.micro_batch, "sample")},
      {"recompute", std::string(recompute_words.of(plan.recompute))},
      {"reason", plan.micro_reason},
      {"steps",
       digit_groups(plan.total_steps) + ", " + digit_groups(plan.steps_per_epoch) + " per epoch"},
      {"training samples", digit_groups(plan.train_samples)},
      {"validation samples", digit_groups(plan.val_samples)},
  };
  if (!plan.cuts_reason.empty()) rows.emplace_back("activations", plan.cuts_reason);
  for (const std::string& remark : plan.remarks) rows.emplace_back("remark", remark);
  return table_of(rows);
}

}  // namespace

observe::TensorboardRun tensorboard_run(const SinkContext& run) {
  return {.folder = run.directory.tensorboard_folder(),
          .first_step = run.first_step,
          .hyper_parameters = hyper_parameters_of(run.config),
          .texts = {{"plan", plan_in_markdown(run.plan)},
                    {"config", "```toml\n" + to_toml(run.config) + "```\n"}}};
}

}  // namespace accrue::train
