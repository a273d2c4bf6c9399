#include <cmath>

#include "accrue/core/error.h"
#include "train/config/key_builders.h"

namespace accrue::train {
namespace {

constexpr const char* heads_example =
    R"([{name = "stars", output = "logits", target = "labels"}, {name = "length", loss = "mse", )"
    R"(output = "length", target = "length", coefficient = 0.1}])";

/// Reads the elements of loss.heads, a table each.
class HeadsReader {
 public:
  HeadsReader(const Stated& stated, const std::string& expected)
      : stated_(stated), expected_(expected) {}

  std::vector<models::ScriptLoss> read() const {
    const auto* array = stated_.value.as<Value::Array>();
    if (!array) throw refusal(stated_.value, heads_example);
    std::vector<models::ScriptLoss> heads;
    for (const Value& head : *array) {
      heads.push_back(head_of(head));
      for (std::size_t i = 0; i + 1 < heads.size(); ++i)
        if (heads[i].name == heads.back().name)
          throw refusal(head, "names that differ: each loss is reported under its own");
    }
    return heads;
  }

 private:
  models::ScriptLoss head_of(const Value& head) const {
    const auto* table = head.as<Value::Table>();
    if (!table) throw refusal(head, heads_example);
    models::ScriptLoss loss;
    for (const Value::Field& field : *table) take(field, head, loss);
    if (loss.name.empty()) throw refusal(head, "a name, as it is to be reported");
    return loss;
  }

  void take(const Value::Field& field, const Value& head, models::ScriptLoss& loss) const {
    if (field.name == "name") {
      loss.name = word_of(field, head);
    } else if (field.name == "output") {
      loss.output = word_of(field, head);
    } else if (field.name == "target") {
      loss.target = word_of(field, head);
    } else if (field.name == "loss") {
      const auto kind = models::script_loss_words.find(word_of(field, head));
      if (!kind) throw refusal(head, R"(loss = "cross_entropy" or "mse")");
      loss.kind = *kind;
    } else if (field.name == "coefficient") {
      const auto number = field.value.number();
      if (!number || !std::isfinite(*number) || *number < 0)
        throw refusal(head, "a coefficient of 0 or more, as a number");
      loss.coefficient = *number;
    } else {
      throw refusal(head, std::string("no other keys: ") + heads_example);
    }
  }

  std::string word_of(const Value::Field& field, const Value& head) const {
    const auto* text = field.value.as<std::string>();
    if (!text || text->empty()) throw refusal(head, field.name + " as a name in quotes");
    return *text;
  }

  Error refusal(const Value& value, const std::string& suggestion) const {
    return usage_error(stated_.where, expected_, describe(value), suggestion);
  }

  const Stated& stated_;
  const std::string& expected_;
};

Value value_of_head(const models::ScriptLoss& head) {
  Value::Table table{{"name", value_of(head.name)}};
  if (head.kind != models::ScriptLossKind::cross_entropy)
    table.push_back({"loss", value_of(std::string(to_string(head.kind)))});
  if (!head.output.empty()) table.push_back({"output", value_of(head.output)});
  table.push_back({"target", value_of(head.target)});
  table.push_back({"coefficient", value_of(head.coefficient)});
  return {std::move(table)};
}

}  // namespace

Key heads_key(std::string name) {
  return make_key(
      std::move(name), "an array of {name, loss, output, target, coefficient}",
      [](auto& c) -> auto& { return c.loss.heads; },
      [](const Stated& stated, const std::string& expected) {
        return HeadsReader(stated, expected).read();
      },
      [](const std::vector<models::ScriptLoss>& heads) {
        Value::Array array;
        for (const models::ScriptLoss& head : heads) array.push_back(value_of_head(head));
        return Value{std::move(array)};
      });
}

}  // namespace accrue::train
