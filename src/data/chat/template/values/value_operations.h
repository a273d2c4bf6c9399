#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/template/values/template_value.h"

namespace accrue::data::jinja {

/// Python's operators, without methods. Each throws a Failure if Python raises, and for integers of
/// more than 63 bits and a sign, which Python supports.

bool is_true(const Value& value);
Value negated(const Value& value);
/// `op` is one of + - * / // % **.
Value arithmetic(std::string_view op, const Value& left, const Value& right, Work& work);
/// Python's `format % arguments`, for the conversions s, r, d, i, f, x and %; a tuple has several.
std::string percent_format(const std::string& format, const Value& given, Work& work);

/// len(). Throws if Python has none.
std::size_t length_of(const Value& value);
/// The items that `for` walks over; for a generator the remaining ones, which are then used up.
std::vector<Value> items_of(const Value& value, Work& work);
bool is_iterable(const Value& value);

/// object[index], as in jinja2: an element, else an attribute, else Undefined.
Value element_of(const Value& object, const Value& index, Work& work);
/// object.name, as in jinja2: an attribute, else an element, else Undefined.
Value attribute_of(const Value& object, const std::string& name, Work& work);

struct SliceBounds {
  std::optional<std::int64_t> start, stop, step;
};
/// object[start:stop:step].
Value slice_of(const Value& object, const SliceBounds& bounds, Work& work);

}  // namespace accrue::data::jinja
