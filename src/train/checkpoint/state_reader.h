#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::train {

/// Reads the values of an object in state.json, whose author is not trusted. Each function throws a
/// usage Error that names the value that is missing, of another type, or out of range.
class StateReader {
 public:
  /// Keeps references to everything but `place`. `place` is the object's name followed by a dot,
  /// empty for the top level; errors begin with `operation`.
  StateReader(const nlohmann::json& object, std::string place, const std::string& operation);

  bool is_set(const char* name) const { return object_.value(name, nlohmann::json(false)) == true; }
  bool has(const char* name) const { return object_.contains(name); }

  std::int64_t integer(const char* name, std::int64_t least,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  std::int64_t integer_or(const char* name, std::int64_t least, std::int64_t most,
                          std::int64_t otherwise) const;
  std::vector<std::int64_t> integers(const char* name, std::int64_t least) const;
  std::vector<int> small_integers(const char* name) const;

  double number(const char* name) const;
  double number_of_at_least_0(const char* name) const;
  /// JSON cannot hold numbers that are not finite: they were written as null, and are read as NaN.
  std::vector<double> numbers(const char* name) const;
  std::vector<double> times(const char* name) const;

  std::string text(const char* name) const;
  const nlohmann::json& array(const char* name) const;
  /// The object with this name.
  StateReader object(const char* name) const { return {at(name), place_ + name + ".", operation_}; }
  /// The objects in the array with this name.
  std::vector<StateReader> objects(const char* name) const;
  /// The counts in the object with this name, whose keys are free.
  std::map<std::string, std::int64_t> counts(const char* name) const;

  Error wrong(const std::string& name, const std::string& expected,
              const nlohmann::json& received) const;

 private:
  const nlohmann::json& at(const char* name) const;

  const nlohmann::json& object_;
  std::string place_;
  const std::string& operation_;
};

}  // namespace accrue::train
