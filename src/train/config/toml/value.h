#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace accrue::train {

/// A TOML value, independent of the TOML library.
struct Value {
  using Array = std::vector<Value>;
  struct Field;
  /// An element of an array: { path = "a.txt", weight = 3 }. Other tables are sections of keys.
  using Table = std::vector<Field>;
  /// A type that no key takes: a date, a time, a section, a number beyond 64 bits.
  struct Other {
    std::string type;
    bool is_number = false;
    bool operator==(const Other&) const = default;
  };
  std::variant<bool, std::int64_t, double, std::string, Array, Table, Other> data;

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  /// The value of an integer or a float.
  std::optional<double> number() const;
};

struct Value::Field {
  std::string name;
  Value value;
};

/// Whether the values are equal, as 1 and 1.0 are.
bool equal(const Value& a, const Value& b);

/// Writes TOML that reads back to the same value (an Other as its type's name).
std::string to_toml(const Value& value);

/// The value for errors: `"abc" (a string)`.
std::string describe(const Value& value);

}  // namespace accrue::train
