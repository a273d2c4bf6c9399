#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::models {

/// The config.json of a Hugging Face folder, or an object in it, whose keys are read by the values
/// that a model supports. Everything throws a usage Error that names the file and the key
/// ("rope_scaling.factor") if it is missing, of the wrong type or has another value than the model
/// supports.
class ConfigFile {
 public:
  /// `file` names it in errors; `fitting` states what would fit ("a model with the architecture of
  /// GPT-2"). Throws if `text` is not a JSON object.
  ConfigFile(const std::string& text, const std::string& file, const std::string& fitting);

  bool has(const char* key) const { return root_.contains(key); }
  bool is_null_or_absent(const char* key) const;
  /// Whether it is null, absent, or without elements.
  bool is_empty(const char* key) const;
  bool is_flag(const char* key) const;
  /// A count: so small that products of two such counts do not overflow.
  std::int64_t count(const char* key, std::int64_t least = 1) const;
  std::int64_t count_or(const char* key, std::int64_t usual, std::int64_t least = 1) const;
  /// As count(), but `usual` if there is no such key. Null is not a number.
  std::int64_t count_unless_absent(const char* key, std::int64_t usual,
                                   std::int64_t least = 1) const;
  /// A finite number greater than 0.
  double positive(const char* key) const;
  double positive_or(const char* key, double usual) const;
  /// None if the key is null, absent or 0, which Python's `or` treats alike.
  std::optional<double> positive_if_any(const char* key) const;
  /// A number in [0, 1).
  double fraction_or(const char* key, double usual) const;
  bool flag_or(const char* key, bool usual) const;
  std::string text(const char* key) const;
  /// Strings; none if the key is null or absent.
  std::optional<std::vector<std::string>> texts(const char* key) const;
  /// The object under `key`; none if it is null or absent.
  std::optional<ConfigFile> object(const char* key) const;
  /// `object` instead of the value of `key`.
  ConfigFile stand_in(const char* key, nlohmann::json object) const;

  /// Throws unless `key` is absent or is `expected`.
  void require(const char* key, const nlohmann::json& expected) const;
  /// Throws unless `key` is null or absent.
  void require_none(const char* key) const;
  void require_one_of(const char* key, const std::vector<std::string>& expected) const;

  /// The Error if `key` should be something else.
  Error wrong(const std::string& key, const std::string& expected,
              const std::string& received) const;

 private:
  ConfigFile() = default;
  const nlohmann::json* find(const char* key) const;

  std::string file_, fitting_;
  std::string within_;  ///< the path of the object, followed by a dot
  nlohmann::json root_;
};

}  // namespace accrue::models
