#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::models {

/// The config.json of a Hugging Face folder, or an object in it, whose keys are read by what a
/// model can be. Everything throws a usage Error that names the file and the key
/// ("rope_scaling.factor") where it is missing, of the wrong type or another value than the model
/// has.
class ConfigFile {
 public:
  /// `file` names it in errors; `fitting` says what would fit ("a model with the architecture of
  /// GPT-2"). Throws if `text` is no JSON object.
  ConfigFile(const std::string& text, const std::string& file, const std::string& fitting);

  bool has(const char* key) const { return root_.contains(key); }
  bool is_null_or_absent(const char* key) const;
  /// Whether it says nothing: null, absent, or without elements.
  bool is_empty(const char* key) const;
  bool is_flag(const char* key) const;
  /// How many there are of something: so few that products of two such counts are numbers, too.
  std::int64_t count(const char* key, std::int64_t least = 1) const;
  std::int64_t count_or(const char* key, std::int64_t usual, std::int64_t least = 1) const;
  /// As count(), but `usual` if there is no such key. Null is no number.
  std::int64_t count_unless_absent(const char* key, std::int64_t usual,
                                   std::int64_t least = 1) const;
  /// A finite number greater than 0.
  double positive(const char* key) const;
  double positive_or(const char* key, double usual) const;
  /// None if the key is null, absent or 0, which Python's `or` takes for the same.
  std::optional<double> positive_if_any(const char* key) const;
  /// A number in [0, 1).
  double fraction_or(const char* key, double usual) const;
  bool flag_or(const char* key, bool usual) const;
  std::string text(const char* key) const;
  /// Strings; nothing if the key is null or absent.
  std::optional<std::vector<std::string>> texts(const char* key) const;
  /// The object under `key`; nothing if it is null or absent.
  std::optional<ConfigFile> object(const char* key) const;
  /// `object` in the place of what is under `key`.
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
  std::string within_;  ///< the path of the object, with a dot at its end
  nlohmann::json root_;
};

}  // namespace accrue::models
