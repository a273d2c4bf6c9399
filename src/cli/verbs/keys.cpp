#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "accrue/train/config.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/help/wrapped_text.h"
#include "cli/output/text_table.h"
#include "core/lower_case.h"
#include "core/words.h"
#include "train/config/config_json.h"
#include "train/config/key.h"
#include "train/config/names.h"

namespace accrue::cli {
namespace {

using Json = nlohmann::ordered_json;
using train::Key;

struct KeysArguments {
  std::string pattern;
  bool json = false;
};

bool contains(const std::string& text, const std::string& pattern) {
  return lower_case(text).find(lower_case(pattern)) != std::string::npos;
}

/// The keys whose name contains the pattern, or else those whose meaning does.
std::vector<const Key*> matching(const std::string& pattern) {
  std::vector<const Key*> by_name, by_meaning;
  for (const Key& key : train::keys()) {
    if (!key.in_this_version) continue;
    if (contains(key.name, pattern))
      by_name.push_back(&key);
    else if (contains(key.meaning, pattern))
      by_meaning.push_back(&key);
  }
  return by_name.empty() ? by_meaning : by_name;
}

/// A key without a default has no value in an empty config.
std::optional<train::Value> default_of(const Key& key) { return key.get(train::Config{}); }

/// The configs that read a key: "model.kind = "llama", lora.rank above 0 or lora.from"; empty:
/// all.
std::string condition_of(const Key& key) {
  std::vector<std::string> conditions;
  for (const train::Reader& reader : key.read_by) conditions.push_back(reader.with);
  return conditions.empty() ? "" : listed(conditions, "and");
}

void print_in_detail(const std::vector<const Key*>& keys, std::size_t width) {
  constexpr std::size_t indent = 4;
  bool is_first = true;
  for (const Key* key : keys) {
    const auto value = default_of(*key);
    std::cout << (is_first ? "" : "\n") << key->name;
    if (value) std::cout << " = " << train::to_toml(*value);
    std::cout << "\n" << wrapped(key->meaning, width, indent);
    std::cout << wrapped("Takes " + key->expected + ".", width, indent);
    const std::string condition = condition_of(*key);
    if (!condition.empty()) std::cout << wrapped("Read with " + condition + ".", width, indent);
    if (key->may_change_on_resume)
      std::cout << wrapped("May be changed when a run is resumed.", width, indent);
    is_first = false;
  }
}

/// A line for each key, under its section.
void print_in_short(const std::vector<const Key*>& keys, std::size_t width) {
  std::size_t longest = 0;
  for (const Key* key : keys) longest = std::max(longest, key->name.size());
  const std::size_t column = longest + 4;
  std::string section;
  for (const Key* key : keys) {
    const std::string own = key->name.substr(0, key->name.find('.'));
    if (own != section) std::cout << (section.empty() ? "[" : "\n[") << own << "]\n";
    section = own;
    std::cout << hanging("  " + key->name, key->meaning, column, width);
  }
  std::cout << "\nA key in full: accrue keys PATTERN. In a file the key a.b = c stands as b = c "
               "under [a]; on\nthe command line as --a.b=c.\n";
}

void print_json(const std::vector<const Key*>& keys) {
  Json list = Json::array();
  for (const Key* key : keys) {
    Json entry{{"name", key->name}, {"meaning", key->meaning}, {"values", key->expected}};
    if (const auto value = default_of(*key)) entry["default"] = train::to_toml(*value);
    if (!key->read_by.empty()) entry["read_with"] = condition_of(*key);
    entry["may_change_on_resume"] = key->may_change_on_resume;
    list.push_back(std::move(entry));
  }
  std::cout << Json{{"keys", std::move(list)}}.dump(2) << "\n";
}

/// Throws a usage Error that answers another system's name with what to state here.
[[noreturn]] void refuse(const std::string& pattern) {
  const std::string operation = "accrue keys " + pattern;
  if (const auto foreign = train::foreign_key(pattern))
    throw usage_error(operation, "a part of the name or the meaning of a key",
                      "a name of " + foreign->users, foreign->advice);
  const Key* const near = train::nearest_key(pattern);
  throw usage_error(
      operation, "a part of the name or the meaning of a key",
      "\"" + pattern + "\", which is in none",
      near == nullptr ? "accrue keys, which lists them all" : "accrue keys " + near->name);
}

int run_keys(const KeysArguments& arguments) {
  const std::vector<const Key*> keys = matching(arguments.pattern);
  if (keys.empty()) refuse(arguments.pattern);
  const std::size_t width = page_width();
  if (arguments.json)
    print_json(keys);
  else if (arguments.pattern.empty())
    print_in_short(keys, width);
  else
    print_in_detail(keys, width);
  return 0;
}

}  // namespace

void add_keys(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("keys", "List the keys of a config with their defaults");
  set_help(*verb, {.heading = heading::reference,
                   .text = "PATTERN is a part of a key's name (batch, optim.lr), or of its meaning "
                           "if no name has it. A name that another system uses is answered with "
                           "the key to state instead.",
                   .examples = {"accrue keys batch", "accrue keys checkpointing",
                                "accrue keys max_grad_norm"}});
  auto arguments = std::make_shared<KeysArguments>();
  verb->add_option("PATTERN", arguments->pattern, "Which keys to show in full");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action] { action = [=] { return run_keys(*arguments); }; });
}

}  // namespace accrue::cli
