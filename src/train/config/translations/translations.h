#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/toml/value.h"

namespace accrue::train {

/// A key to state in place of another system's, with its value.
struct Statement {
  const char* key;
  const char* example;  ///< as TOML: a valid value of the key
  /// Converts the stated value to this key's; null if that value does not determine it.
  std::optional<Value> (*carry)(const Value& stated) = nullptr;
  /// The TOML to state if `false` was stated. Null: nothing needs to be stated then, unless `carry`
  /// gives a value.
  const char* where_false = nullptr;
  /// Whether a value already in the config will do; null: the statement replaces it.
  bool (*own_value_holds)(const Value& own) = nullptr;
};

/// A system and its names for something, separated by spaces, in lower case, with '_' for '-'. A
/// name has dots if only the section makes its meaning clear.
struct Users {
  const char* system;
  const char* names;
};

/// One row: a setting of several systems, and what to state here.
struct Translation {
  std::vector<Statement> statements;  ///< to be stated together; none if there is no counterpart
  const char* remark;                 ///< the difference, or the whole answer without statements
  std::vector<Users> users;
};

/// The table, by the subject of its rows. Each name is in one row.
const std::vector<Translation>& translations_of_batches();     ///< and of the length of a run
const std::vector<Translation>& translations_of_optimizers();  ///< and of learning rates
const std::vector<Translation>& translations_of_models();  ///< and of precision, loss and memory
const std::vector<Translation>&
translations_of_data();  ///< and of run folders, evaluation, records
const std::vector<Translation>& translations_of_ranks();  ///< and of devices
/// All rows, in this order.
const std::vector<const Translation*>& translations();
/// "a b c" -> {"a", "b", "c"}.
std::vector<std::string> words_of(const char* names);

/// Another system's name that was found in the table.
struct ForeignName {
  std::string name;  ///< as the table has it
  const Translation* row;
};

/// The longest suffix of a dotted path that is in the table: "fp16.enabled" for
/// "train.fp16.enabled". Case, '-' for '_' and '.' for '_' ("lora.r" for "lora_r") do not matter.
std::optional<ForeignName> find_foreign(const std::string& path);
/// The name in the table that the last part of `path` was most likely meant to be, if one is
/// similar.
std::optional<ForeignName> nearest_foreign(const std::string& path);
/// The innermost section around `path` that is in the table and is not one of ours.
std::optional<ForeignName> enclosing_foreign(const std::string& path);

/// The value of `statement`'s key, as TOML, for a `value` that was stated elsewhere; none if it
/// determines nothing that the key takes.
std::optional<std::string> carried(const Statement& statement, const Value& value);
/// The result of carried(), or the row's example; none if nothing needs to be stated.
std::optional<std::string> value_for(const Statement& statement, const Value& value);

/// The lines of TOML to write instead of `value` ("optim.clip = 0.5"); empty if nothing needs to be
/// stated.
std::vector<std::string> lines_for(const Translation& row, const Value& value);
/// The systems that use the name: "Hugging Face", "Hugging Face, Accelerate and other systems".
std::string users_of(const ForeignName& foreign);

}  // namespace accrue::train
