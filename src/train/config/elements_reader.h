#pragma once

#include <string>

#include "accrue/core/error.h"
#include "train/config/key_builders.h"

namespace accrue::train {

/// Shared by the readers of keys whose value is an array of tables. The error for a wrong element
/// names the key, what the key takes, and the element as it was received.
class ElementsReader {
 protected:
  /// Both are kept by reference; `example` is a valid value.
  ElementsReader(const Stated& stated, const std::string& expected, const char* example)
      : stated_(stated), expected_(expected), example_(example) {}

  /// The array. Throws a usage Error if the value is not an array.
  const Value::Array& elements() const;
  /// The element as a table. Throws a usage Error with `suggestion`, or the example, if it is not a
  /// table.
  const Value::Table& table_of(const Value& element, const std::string& suggestion) const;
  const Value::Table& table_of(const Value& element) const { return table_of(element, example_); }
  /// A text that is not empty; throws a usage Error if `field` of `element` is something else.
  std::string text_of(const Value::Field& field, const Value& element) const;
  /// A finite number; throws a usage Error if `field` of `element` is something else.
  double number_of(const Value::Field& field, const Value& element) const;

  Error refusal(const Value& element, const std::string& suggestion) const;
  /// The error for an element with a key that elements do not have.
  Error other_key(const Value& element) const;

  const Stated& stated_;
  const std::string& expected_;
  const char* example_;
};

}  // namespace accrue::train
