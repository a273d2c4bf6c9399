#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "train/config/elements_reader.h"

namespace accrue::train {
namespace {

constexpr const char* schedule_example =
    R"([{at = 0, micro_batches = 4}, {at = "10 M tokens", micro_batches = 8}])";

std::int64_t most_of(BatchUnit unit) {
  return unit == BatchUnit::tokens ? most::tokens : most::samples;
}

/// Reads the elements of batch.schedule, a table each.
class StagesReader : ElementsReader {
 public:
  StagesReader(const Stated& stated, const std::string& expected)
      : ElementsReader(stated, expected, schedule_example) {}

  void read(BatchConfig& batch) const {
    std::vector<BatchStage> stages;
    std::set<BatchUnit> units;
    for (const Value& value : elements()) {
      stages.push_back(stage_of(value, units));
      if (units.size() > 1) throw refusal(value, "one unit for the batch of all stages");
      if (stages.size() > 1) expect_behind(stages[stages.size() - 2].at, stages.back().at, value);
    }
    batch.schedule = std::move(stages);
    if (!units.empty()) batch.schedule_unit = *units.begin();
  }

 private:
  BatchStage stage_of(const Value& value, std::set<BatchUnit>& units) const {
    const std::string suggestion = std::string("at and one batch for each: ") + example_;
    const Value::Table& table = table_of(value, suggestion);
    if (table.size() != 2) throw refusal(value, suggestion);
    BatchStage stage{.at = {.value = -1}};
    for (const Value::Field& field : table) take(field, value, stage, units);
    if (stage.at.value < 0 || stage.size < 1) throw refusal(value, suggestion);
    return stage;
  }

  void take(const Value::Field& field, const Value& value, BatchStage& stage,
            std::set<BatchUnit>& units) const {
    const Stated part{.value = field.value, .where = stated_.where + ", " + field.name};
    if (field.name == "at") {
      const DurationRule rule{.zero_allowed = true, .time_allowed = false};
      stage.at = read_duration(part, rule.in_words(), rule);
      return;
    }
    const auto unit = batch_unit_words.find(field.name);
    if (!unit) throw other_key(value);
    const IntegerRange range{1, most_of(*unit)};
    stage.size = read_integer(part, range.in_words(), range);
    units.insert(*unit);
  }

  void expect_behind(const Duration& before, const Duration& at, const Value& value) const {
    const bool begins_at_zero = before.value == 0;
    if (before.unit != at.unit && !begins_at_zero)
      throw refusal(value, "one unit for all at, so that their order is known");
    if (at.value <= before.value) throw refusal(value, "stages in the order of at, each once");
  }
};

/// Reads "{0: 4, 8: 8}" or "0:4,8:8": the number of micro-batches from an epoch on, in the format
/// of PyTorch Lightning's GradientAccumulationScheduler. None if the text has another form.
std::optional<Value> stages_by_epoch(const std::string& text) {
  constexpr std::size_t longest = 1000;  // std::regex recurses by characters
  if (text.size() > longest) return std::nullopt;
  static const std::regex form(
      R"(\s*\{?\s*\d{1,18}\s*:\s*\d{1,18}\s*(,\s*\d{1,18}\s*:\s*\d{1,18}\s*)*,?\s*\}?\s*)");
  static const std::regex stage(R"((\d{1,18})\s*:\s*(\d{1,18}))");
  if (!std::regex_match(text, form)) return std::nullopt;
  Value::Array stages;
  for (std::sregex_iterator at(text.begin(), text.end(), stage), end; at != end; ++at)
    stages.push_back(
        {Value::Table{{"at", value_of((*at)[1].str() + " epochs")},
                      {"micro_batches", value_of(std::int64_t{std::stoll((*at)[2])})}}});
  return Value{std::move(stages)};
}

/// The stated value, with other systems' forms converted to accrue's own.
Stated in_own_form(Stated stated) {
  const auto* const text = stated.value.as<std::string>();
  const auto stages = stages_by_epoch(text != nullptr ? *text : stated.bare.value_or(""));
  if (stages) stated.value = *stages;
  return stated;
}

Value value_of_stage(const BatchStage& stage, BatchUnit unit) {
  return {Value::Table{{"at", value_of(stage.at)},
                       {std::string(batch_unit_words.of(unit)), value_of(stage.size)}}};
}

}  // namespace

Key batch_schedule_key(KeyName name) {
  const std::string expected =
      "an array of {at, tokens}, {at, samples} or {at, micro_batches}, in order of at; or "
      "micro-batches "
      "by epoch, such as \"0:4,8:8\"";
  auto set = [=](const Stated& stated, Config& config) {
    StagesReader(in_own_form(stated), expected).read(config.batch);
  };
  auto get = [](const Config& config) {
    Value::Array stages;
    for (const BatchStage& stage : config.batch.schedule)
      stages.push_back(value_of_stage(stage, config.batch.schedule_unit));
    return std::optional(Value{std::move(stages)});
  };
  return {std::move(name), expected, std::move(set), std::move(get)};
}

}  // namespace accrue::train
