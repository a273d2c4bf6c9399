#include "train/config/elements_reader.h"

#include <cmath>

namespace accrue::train {

const Value::Array& ElementsReader::elements() const {
  if (const auto* array = stated_.value.as<Value::Array>()) return *array;
  throw refusal(stated_.value, example_);
}

const Value::Table& ElementsReader::table_of(const Value& element,
                                             const std::string& suggestion) const {
  if (const auto* table = element.as<Value::Table>()) return *table;
  throw refusal(element, suggestion);
}

std::string ElementsReader::text_of(const Value::Field& field, const Value& element) const {
  const auto* text = field.value.as<std::string>();
  if (!text || text->empty()) throw refusal(element, field.name + " as a text in quotes");
  return *text;
}

double ElementsReader::number_of(const Value::Field& field, const Value& element) const {
  const auto number = field.value.number();
  if (!number || !std::isfinite(*number)) throw refusal(element, field.name + " as a number");
  return *number;
}

Error ElementsReader::refusal(const Value& element, const std::string& suggestion) const {
  return usage_error(stated_.where, expected_, describe(element), suggestion);
}

Error ElementsReader::other_key(const Value& element) const {
  return refusal(element, std::string("no other keys: ") + example_);
}

}  // namespace accrue::train
