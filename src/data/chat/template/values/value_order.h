#pragma once

#include <compare>

#include "data/chat/template/values/template_value.h"

namespace accrue::data::jinja {

/// Python's ==. Undefined only equals undefined.
bool are_equal(const Value& left, const Value& right, Work& work);
/// Python's `is`, as far as it does not depend on an implementation's caches: None, True, False,
/// and containers that are one object.
bool are_same(const Value& left, const Value& right);
/// Python's <. Throws a Failure if it has no order for the two.
bool is_less(const Value& left, const Value& right, Work& work);
/// Python's `left in right`.
bool is_in(const Value& left, const Value& right, Work& work);

}  // namespace accrue::data::jinja
