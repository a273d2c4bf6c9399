#include "data/chat/template/values/value_order.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "data/chat/template/values/python_text.h"

namespace accrue::data::jinja {
namespace {

bool numbers_equal(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return left.as_integer() == right.as_integer();
  // A long double can hold every bit of both.
  const auto wide = [](const Value& value) {
    return value.is<double>() ? static_cast<long double>(value.as<double>())
                              : static_cast<long double>(value.as_integer());
  };
  return wide(left) == wide(right);
}

bool number_is_less(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return left.as_integer() < right.as_integer();
  const auto wide = [](const Value& value) {
    return value.is<double>() ? static_cast<long double>(value.as<double>())
                              : static_cast<long double>(value.as_integer());
  };
  return wide(left) < wide(right);
}

/// Whether both are numbers, and one is an integer of more than 64 bits.
bool are_large_numbers(const Value& left, const Value& right) {
  const auto is_number = [](const Value& value) {
    return value.is_number() || value.is<LargeInteger>();
  };
  return is_number(left) && is_number(right) &&
         (left.is<LargeInteger>() || right.is<LargeInteger>());
}

/// The digits of a number before its point: floats beyond 64 bits have nothing after it.
std::string digits_of_number(const Value& value) {
  if (value.is<LargeInteger>()) return *value.as<LargeInteger>().digits;
  if (value.is_integral()) return std::to_string(value.as_integer());
  std::array<char, 512> digits{};  // the largest float has 309
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                 std::trunc(value.as<double>()), std::chars_format::fixed, 0)
                       .ptr;
  return {digits.data(), static_cast<std::size_t>(end - digits.data())};
}

bool digits_are_less(std::string_view left, std::string_view right) {
  const bool is_negative = left.starts_with('-');
  if (is_negative != right.starts_with('-')) return is_negative;
  if (is_negative) return digits_are_less(right.substr(1), left.substr(1));
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

bool is_finite(const Value& value) {
  return !value.is<double>() || std::isfinite(value.as<double>());
}

bool large_numbers_equal(const Value& left, const Value& right) {
  return is_finite(left) && is_finite(right) && digits_of_number(left) == digits_of_number(right);
}

bool large_number_is_less(const Value& left, const Value& right) {
  if (!is_finite(left)) return left.as<double>() < 0;
  if (!is_finite(right)) return right.as<double>() > 0;
  return digits_are_less(digits_of_number(left), digits_of_number(right));
}

bool sequences_equal(const Sequence& left, const Sequence& right, Work& work) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  return std::ranges::equal(left.items, right.items, [&](const Value& one, const Value& other) {
    return are_equal(one, other, work);
  });
}

bool mappings_equal(const Mapping& left, const Mapping& right, Work& work) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::ranges::all_of(left.entries, [&](const auto& entry) {
    const Value* const other = find_entry(right, entry.first, work);
    return other != nullptr && are_equal(entry.second, *other, work);
  });
}

bool sequence_is_less(const Sequence& left, const Sequence& right, Work& work) {
  const std::size_t common = std::min(left.items.size(), right.items.size());
  for (std::size_t i = 0; i < common; ++i)
    if (!are_equal(left.items[i], right.items[i], work))
      return is_less(left.items[i], right.items[i], work);
  return left.items.size() < right.items.size();
}

[[noreturn]] void refuse_order(const Value& left, const Value& right) {
  throw Failure("values that have an order", left.type_name() + " and " + right.type_name());
}

bool is_among(const Value& wanted, const std::vector<Value>& items, Work& work) {
  return std::ranges::any_of(items,
                             [&](const Value& item) { return are_equal(item, wanted, work); });
}

bool takes_until_found(const Value& wanted, Iterator& iterator, Work& work) {
  while (iterator.next < iterator.items.size())
    if (are_equal(iterator.items[iterator.next++], wanted, work)) return true;
  return false;
}

}  // namespace

bool are_equal(const Value& left, const Value& right, Work& work) {
  work.spend(1);
  if (left.is_number() && right.is_number()) return numbers_equal(left, right);
  if (are_large_numbers(left, right)) return large_numbers_equal(left, right);
  if (left.is_text() && right.is_text()) return left.as_text() == right.as_text();
  if (left.is<SequencePointer>() && right.is<SequencePointer>())
    return sequences_equal(*left.as<SequencePointer>(), *right.as<SequencePointer>(), work);
  if (left.is<MappingPointer>() && right.is<MappingPointer>())
    return mappings_equal(*left.as<MappingPointer>(), *right.as<MappingPointer>(), work);
  if (left.is<Markup>() || right.is<Markup>()) {
    const auto text = [](const Value& value) -> const std::string* {
      if (value.is<Markup>()) return value.as<Markup>().text.get();
      return value.is_text() ? &value.as_text() : nullptr;
    };
    return text(left) != nullptr && text(right) != nullptr && *text(left) == *text(right);
  }
  if (left.is<Undefined>()) return right.is<Undefined>();
  return are_same(left, right);
}

bool are_same(const Value& left, const Value& right) {
  if (left.is<None>()) return right.is<None>();
  if (left.is<bool>()) return right.is<bool>() && left.as<bool>() == right.as<bool>();
  if (left.is<Namespace*>())
    return right.is<Namespace*>() && left.as<Namespace*>() == right.as<Namespace*>();
  const auto same = [&]<class Pointer>(Pointer*) {
    return left.is<Pointer>() && right.is<Pointer>() && left.as<Pointer>() == right.as<Pointer>();
  };
  return same(static_cast<SequencePointer*>(nullptr)) ||
         same(static_cast<MappingPointer*>(nullptr)) ||
         same(static_cast<IteratorPointer*>(nullptr)) ||
         same(static_cast<CallablePointer*>(nullptr)) || same(static_cast<Text*>(nullptr));
}

bool is_less(const Value& left, const Value& right, Work& work) {
  work.spend(1);
  if (left.is_number() && right.is_number()) return number_is_less(left, right);
  if (are_large_numbers(left, right)) return large_number_is_less(left, right);
  if (left.is_text() && right.is_text()) return left.as_text() < right.as_text();
  if (!left.is<SequencePointer>() || !right.is<SequencePointer>()) refuse_order(left, right);
  const Sequence& one = *left.as<SequencePointer>();
  const Sequence& other = *right.as<SequencePointer>();
  if (one.kind != other.kind || one.kind > Sequence::Kind::tuple) refuse_order(left, right);
  return sequence_is_less(one, other, work);
}

bool is_in(const Value& left, const Value& right, Work& work) {
  if (right.is_text()) {
    if (!left.is_text()) throw Failure("a text to look for in a text", left.type_name());
    work.spend(right.as_text().size());
    return find_text(right.as_text(), left.as_text(), 0) != std::string_view::npos;
  }
  if (right.is<MappingPointer>())
    return find_entry(*right.as<MappingPointer>(), left, work) != nullptr;
  if (right.is<SequencePointer>()) return is_among(left, right.as<SequencePointer>()->items, work);
  if (right.is<IteratorPointer>())
    return takes_until_found(left, *right.as<IteratorPointer>(), work);
  if (right.is<Undefined>()) return false;
  throw Failure("something that contains values", right.type_name());
}

}  // namespace accrue::data::jinja
