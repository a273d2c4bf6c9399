#include "train/checkpoint/state_reader.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/whole_number.h"

namespace accrue::train {

using nlohmann::json;

namespace {

/// No state has a number beyond 2^62.
bool fits(const json& value, std::int64_t least, std::int64_t most) {
  const std::optional<std::int64_t> number = whole_number(value);
  return number && *number >= least && *number <= std::min(most, std::int64_t{1} << 62U);
}

}  // namespace

StateReader::StateReader(const json& object, std::string place, const std::string& operation)
    : object_(object), place_(std::move(place)), operation_(operation) {
  if (!object.is_object()) throw wrong("", "an object", object);
}

std::int64_t StateReader::integer(const char* name, std::int64_t least, std::int64_t most) const {
  const json& value = at(name);
  if (fits(value, least, most)) return value.get<std::int64_t>();
  const bool bounded = most != std::numeric_limits<std::int64_t>::max();
  throw wrong(name,
              "a whole number of at least " + std::to_string(least) +
                  (bounded ? " and at most " + std::to_string(most) : ""),
              value);
}

std::int64_t StateReader::integer_or(const char* name, std::int64_t least, std::int64_t most,
                                     std::int64_t otherwise) const {
  return has(name) ? integer(name, least, most) : otherwise;
}

std::vector<std::int64_t> StateReader::integers(const char* name, std::int64_t least) const {
  std::vector<std::int64_t> numbers;
  for (const json& value : array(name)) {
    if (!fits(value, least, std::numeric_limits<std::int64_t>::max()))
      throw wrong(name, "whole numbers of at least " + std::to_string(least), value);
    numbers.push_back(value.get<std::int64_t>());
  }
  return numbers;
}

std::vector<int> StateReader::small_integers(const char* name) const {
  constexpr std::int64_t kMost = 4096;
  std::vector<int> numbers;
  for (const json& value : array(name)) {
    if (!fits(value, -kMost, kMost))
      throw wrong(name, "whole numbers of at most " + std::to_string(kMost), value);
    numbers.push_back(value.get<int>());
  }
  return numbers;
}

double StateReader::number(const char* name) const {
  const json& value = at(name);
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  throw wrong(name, "a finite number", value);
}

double StateReader::number_of_at_least_0(const char* name) const {
  const double value = number(name);
  if (value >= 0) return value;
  throw wrong(name, "a number of at least 0", at(name));
}

std::vector<double> StateReader::numbers(const char* name) const {
  std::vector<double> numbers;
  for (const json& value : array(name)) {
    if (!value.is_number() && !value.is_null()) throw wrong(name, "numbers", value);
    numbers.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                      : value.get<double>());
  }
  return numbers;
}

std::vector<double> StateReader::times(const char* name) const {
  std::vector<double> times;
  for (const json& value : array(name)) {
    if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>()))
      throw wrong(name, "times of at least 0", value);
    times.push_back(value.get<double>());
  }
  return times;
}

std::string StateReader::text(const char* name) const {
  const json& value = at(name);
  if (value.is_string()) return value.get<std::string>();
  throw wrong(name, "text", value);
}

const json& StateReader::array(const char* name) const {
  const json& value = at(name);
  if (value.is_array()) return value;
  throw wrong(name, "an array", value);
}

std::vector<StateReader> StateReader::objects(const char* name) const {
  std::vector<StateReader> readers;
  for (const json& value : array(name))
    readers.emplace_back(value, place_ + name + ".", operation_);
  return readers;
}

std::map<std::string, std::int64_t> StateReader::counts(const char* name) const {
  std::map<std::string, std::int64_t> counts;
  const StateReader reader = object(name);
  for (const auto& [key, value] : reader.object_.items())
    counts[key] = reader.integer(key.c_str(), 0);
  return counts;
}

const json& StateReader::at(const char* name) const {
  const auto found = object_.find(name);
  if (found != object_.end()) return *found;
  throw usage_error(operation_, place_ + name + " in state.json", "none",
                    "an earlier checkpoint of the run");
}

Error StateReader::wrong(const std::string& name, const std::string& expected,
                         const json& received) const {
  constexpr std::size_t kLongest = 60;
  return usage_error(
      operation_, place_ + name + " in state.json to be " + expected,
      received.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, kLongest),
      "an earlier checkpoint of the run");
}

}  // namespace accrue::train
