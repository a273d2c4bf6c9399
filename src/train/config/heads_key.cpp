#include "train/config/elements_reader.h"

namespace accrue::train {
namespace {

constexpr const char* heads_example =
    R"([{name = "stars", output = "logits", target = "labels"}, {name = "length", loss = "mse", )"
    R"(output = "length", target = "length", coefficient = 0.1}])";

/// Reads the elements of loss.heads, a table each.
class HeadsReader : ElementsReader {
 public:
  HeadsReader(const Stated& stated, const std::string& expected)
      : ElementsReader(stated, expected, heads_example) {}

  std::vector<models::ScriptLoss> read() const {
    std::vector<models::ScriptLoss> heads;
    for (const Value& head : elements()) {
      heads.push_back(head_of(head));
      for (std::size_t i = 0; i + 1 < heads.size(); ++i)
        if (heads[i].name == heads.back().name)
          throw refusal(head, "names that differ: each loss is reported under its own");
    }
    return heads;
  }

 private:
  models::ScriptLoss head_of(const Value& head) const {
    models::ScriptLoss loss;
    for (const Value::Field& field : table_of(head)) take(field, head, loss);
    if (loss.name.empty()) throw refusal(head, "a name, as it is to be reported");
    return loss;
  }

  void take(const Value::Field& field, const Value& head, models::ScriptLoss& loss) const {
    if (field.name == "name") {
      loss.name = text_of(field, head);
    } else if (field.name == "output") {
      loss.output = text_of(field, head);
    } else if (field.name == "target") {
      loss.target = text_of(field, head);
    } else if (field.name == "loss") {
      const auto kind = models::script_loss_words.find(text_of(field, head));
      if (!kind) throw refusal(head, R"(loss = "cross_entropy" or "mse")");
      loss.kind = *kind;
    } else if (field.name == "coefficient") {
      loss.coefficient = number_of(field, head);
      if (loss.coefficient < 0) throw refusal(head, "a coefficient of 0 or more");
    } else {
      throw other_key(head);
    }
  }
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

Key heads_key(KeyName name) {
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
