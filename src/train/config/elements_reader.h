#pragma once

#include <string>

#include "accrue/core/error.h"
#include "train/config/key_builders.h"

namespace accrue::train {

/// What readers of keys share whose value is an array of tables. An element that is not as it
/// should be is refused by the key's name, what the key takes, and the element as it was received.
class ElementsReader {
 protected:
  /// Both are kept by reference; `example` is a value that would do.
  ElementsReader(const Stated& stated, const std::string& expected, const char* example)
      : stated_(stated), expected_(expected), example_(example) {}

  /// The array. Throws a usage Error if the value is none.
  const Value::Array& elements() const;
  /// The element as a table. Throws a usage Error with `suggestion`, or the example, where it is
  /// none.
  const Value::Table& table_of(const Value& element, const std::string& suggestion) const;
  const Value::Table& table_of(const Value& element) const { return table_of(element, example_); }
  /// A text that is not empty; throws a usage Error if `field` of `element` is none.
  std::string text_of(const Value::Field& field, const Value& element) const;
  /// A finite number; throws a usage Error if `field` of `element` is none.
  double number_of(const Value::Field& field, const Value& element) const;

  Error refusal(const Value& element, const std::string& suggestion) const;
  /// Refuses an element for a key that none has.
  Error other_key(const Value& element) const;

  const Stated& stated_;
  const std::string& expected_;
  const char* example_;
};

}  // namespace accrue::train
