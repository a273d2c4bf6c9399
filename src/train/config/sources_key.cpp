#include <cmath>

#include "train/config/elements_reader.h"

namespace accrue::train {
namespace {

constexpr const char* sources_example =
    R"([{path = "a/*.jsonl", weight = 3}, {path = "b.txt", weight = 1}])";

/// Reads the elements of data.train if they are tables.
class SourcesReader : ElementsReader {
 public:
  SourcesReader(const Stated& stated, const std::string& expected)
      : ElementsReader(stated, expected, sources_example) {}

  void read(DataConfig& data) const {
    std::vector<std::string> paths;
    std::vector<double> weights;
    for (const Value& source : elements()) {
      const Value::Table& table = table_of(source, "a table for each source, or for none");
      paths.push_back(path_of(table, source));
      weights.push_back(weight_of(table, source));
      if (table.size() > 2) throw other_key(source);
    }
    data.train = std::move(paths);
    data.weights = std::move(weights);
  }

 private:
  static const Value* find(const Value::Table& table, const char* name) {
    for (const Value::Field& field : table)
      if (field.name == name) return &field.value;
    return nullptr;
  }

  std::string path_of(const Value::Table& table, const Value& source) const {
    const Value* path = find(table, "path");
    const auto* text = path ? path->as<std::string>() : nullptr;
    if (!text || text->empty()) throw refusal(source, "a path in quotes, which is a file pattern");
    return *text;
  }

  double weight_of(const Value::Table& table, const Value& source) const {
    const Value* stated = find(table, "weight");
    const auto weight = stated ? stated->number() : std::nullopt;
    if (!weight || !(*weight > 0) || !std::isfinite(*weight))
      throw refusal(source, "a weight above 0, as a number");
    return *weight;
  }
};

bool holds_table(const Value::Array& array) {
  for (const Value& value : array)
    if (value.as<Value::Table>()) return true;
  return false;
}

/// 3 for 3.0, as in handwritten configs.
Value value_of_weight(double weight) {
  constexpr double most = 1e15;
  if (weight < most && weight == std::floor(weight))
    return value_of(static_cast<std::int64_t>(weight));
  return value_of(weight);
}

}  // namespace

Key sources_key(KeyName name) {
  const std::string expected = "an array of file patterns, or of {path, weight}";
  auto set = [=](const Stated& stated, Config& config) {
    const auto* array = stated.value.as<Value::Array>();
    if (array && holds_table(*array)) {
      SourcesReader(stated, expected).read(config.data);
      return;
    }
    config.data.train = read_strings(stated, expected);
    config.data.weights.clear();
  };
  auto get = [](const Config& config) {
    const DataConfig& data = config.data;
    if (data.weights.empty()) return std::optional(value_of(data.train));
    Value::Array sources;
    for (std::size_t i = 0; i < data.train.size(); ++i)
      sources.push_back({Value::Table{{"path", value_of(data.train[i])},
                                      {"weight", value_of_weight(data.weights.at(i))}}});
    return std::optional(Value{std::move(sources)});
  };
  return {std::move(name), expected, std::move(set), std::move(get)};
}

}  // namespace accrue::train
