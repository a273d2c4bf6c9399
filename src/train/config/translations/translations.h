#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config/toml/value.h"

namespace accrue::train {

/// A key to state in place of another system's, and with which value.
struct Statement {
  const char* key;
  const char* example;  ///< as TOML: a value that the key takes
  /// Makes this key's value of what was stated; null: that says nothing about it.
  std::optional<Value> (*carry)(const Value& stated) = nullptr;
  /// What to state, in TOML, where `false` was stated. Null: nothing needs to be stated then,
  /// unless `carry` gives a value.
  const char* where_false = nullptr;
  /// Whether a value that a config has already will do; null: the statement replaces it.
  bool (*own_value_holds)(const Value& own) = nullptr;
};

/// A system and what it calls something: names separated by spaces, in small letters, with '_'
/// for '-'. A name may have dots, where only the section tells what it means.
struct Users {
  const char* system;
  const char* names;
};

/// One row: what several systems state, and what to state here.
struct Translation {
  std::vector<Statement> statements;  ///< to be stated together; none: there is no counterpart
  const char* remark;                 ///< what differs, or all that is to say without statements
  std::vector<Users> users;
};

/// The table, by what its rows are about. Each name is in one row.
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

/// A name of another system's, found in the table.
struct ForeignName {
  std::string name;  ///< as the table has it
  const Translation* row;
};

/// The longest end of a dotted path that is in the table: "fp16.enabled" for "train.fp16.enabled".
/// Capitals and '-' for '_' do not matter.
std::optional<ForeignName> find_foreign(const std::string& path);
/// The name in the table that the last part of `path` was most likely meant to be, where it is
/// near.
std::optional<ForeignName> nearest_foreign(const std::string& path);
/// The innermost section around `path` that is in the table and is not one of ours.
std::optional<ForeignName> enclosing_foreign(const std::string& path);

/// What a `value` that was stated elsewhere means for the key of `statement`, as TOML; none if
/// it says nothing that the key takes.
std::optional<std::string> carried(const Statement& statement, const Value& value);
/// What carried() gives, or the row's example; none if nothing needs to be stated.
std::optional<std::string> value_for(const Statement& statement, const Value& value);

/// What to state where `value` was stated, as lines of TOML ("optim.clip = 0.5"); none if
/// nothing needs to be.
std::vector<std::string> lines_for(const Translation& row, const Value& value);
/// The systems that have the name: "Hugging Face", "Hugging Face, Accelerate and other systems".
std::string users_of(const ForeignName& foreign);

}  // namespace accrue::train
