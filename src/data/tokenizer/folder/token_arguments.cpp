#include "data/tokenizer/folder/token_arguments.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>

#include "data/tokenizer/folder/tokenizer_files.h"

namespace accrue::data {
namespace {

using SettingsJson = nlohmann::ordered_json;
using TextMap = std::map<std::string, StatedToken>;

constexpr const char* kAdditional = "additional_special_tokens";
constexpr const char* kExtra = "extra_special_tokens";
constexpr const char* kDecoder = "added_tokens_decoder";
constexpr const char* kOthers = "model_specific_special_tokens";

bool is_named(std::string_view key) {
  return std::ranges::find(kNamedTokens, key) != kNamedTokens.end();
}

/// Whether Python treats the value as true.
bool counts_as_true(const SettingsJson& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  if (value.is_structured()) return !value.empty();
  return value.is_number() && value != 0;
}

/// A key of "added_tokens_decoder": a number, with a sign and spaces around it as in Python.
std::optional<std::int64_t> id_of_key(std::string_view key) {
  constexpr std::string_view spaces = " \t\n\r\f\v";
  const std::size_t begin = key.find_first_not_of(spaces);
  if (begin == key.npos) return std::nullopt;
  key = key.substr(begin, key.find_last_not_of(spaces) - begin + 1);
  if (key.starts_with('+')) key.remove_prefix(1);
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size()) return std::nullopt;
  return id;
}

std::optional<std::int64_t> id_of_value(const SettingsJson& value) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > most) return std::nullopt;
  return value.get<std::int64_t>();
}

/// Merges the files as transformers does, step by step and in its order.
class Merging {
 public:
  Merging(const CompanionFiles& files, const std::vector<FileToken>& of_file,
          const std::string& what)
      : files_(files),
        of_file_(of_file),
        settings_reader_(what + ": " + (files.folder / kTokenizerSettings).string()),
        map_reader_(what + ": " + (files.folder / kSpecialTokensMap).string()),
        added_reader_(what + ": " + (files.folder / kAddedTokens).string()),
        stated_(files.settings) {}

  TokenArguments merged() {
    take_old_name_of_extra();
    take_other_names();
    if (stated_.contains(kDecoder)) {
      take_decoder();
    } else {
      take_special_map();
      take_added_tokens();
      for (const FileToken& one : of_file_) add(one.id, one.token);
    }
    take_named();
    take_extra();
    take_names_left();
    return std::move(made_);
  }

 private:
  void take_old_name_of_extra() {
    if (!stated_.contains(kAdditional) || counts_as_true(stated_.value(kExtra, SettingsJson())))
      return;
    SettingsJson additional = stated_.at(kAdditional);
    stated_.erase(kAdditional);
    stated_[kExtra] = std::move(additional);
  }

  /// Names that end with "_token" and have a text; and "extra_special_tokens" if it has names.
  void take_other_names() {
    SettingsJson left = SettingsJson::object();
    for (const auto& [key, value] : stated_.items()) {
      if (!is_named(key) && key.ends_with("_token") && value.is_string())
        specific_.set(key, settings_reader_.special(value, key));
      else
        left[key] = value;
    }
    stated_ = std::move(left);
    const bool is_stated = !specific_.entries().empty();
    const bool has_names = take_names_of_extra(settings_reader_);
    if (is_stated || has_names) return;
    const SettingsJson others = stated_.value(kOthers, SettingsJson());
    if (others.is_null()) return;
    if (!others.is_object()) settings_reader_.refuse(kOthers, "an object", others);
    for (const auto& [name, value] : others.items())
      specific_.set(name, settings_reader_.special(value, std::string(kOthers) + "." + name));
  }

  bool take_names_of_extra(const TokenReader& reader) {
    const SettingsJson extra = stated_.value(kExtra, SettingsJson());
    if (!extra.is_object()) return false;
    stated_.erase(kExtra);
    for (const auto& [name, value] : extra.items())
      specific_.set(name, reader.special(value, std::string(kExtra) + "." + name));
    return !extra.empty();
  }

  void take_decoder() {
    const SettingsJson& decoder = stated_.at(kDecoder);
    if (!decoder.is_object()) settings_reader_.refuse(kDecoder, "an object", decoder);
    for (const auto& [key, value] : decoder.items()) {
      const std::string place = std::string(kDecoder) + "." + key;
      const std::optional<std::int64_t> id = id_of_key(key);
      if (!id) settings_reader_.refuse(kDecoder, "ids as keys", key);
      add(*id, settings_reader_.token(value, place));
    }
  }

  void take_special_map() {
    if (files_.special_map.is_null()) return;
    for (const auto& [key, value] : files_.special_map.items()) {
      if (key == kExtra && value.is_array()) {
        add_to_extra(value);
      } else if (key != kExtra && value.is_object()) {
        SpecialToken token = map_reader_.special(value, key);
        token.token.is_special = true;
        of_map_[key] = std::move(token);
        stated_[key] = nullptr;
      } else {
        of_map_.erase(key);
        stated_[key] = value;
      }
    }
    take_names_of_extra(map_reader_);
  }

  void add_to_extra(const SettingsJson& more) {
    const SettingsJson known = stated_.value(kExtra, SettingsJson());
    if (counts_as_true(known) && !known.is_array())
      settings_reader_.refuse(kExtra, "a list of tokens", known);
    extra_ = extra_of(known.is_array() ? known : SettingsJson::array(), settings_reader_);
    for (const SpecialToken& one : *extra_)
      if (one.is_text) special_extra_.insert(one.text());
    for (const SettingsJson& one : more) {
      SpecialToken token = map_reader_.special(one, kExtra);
      token.token.is_special = !token.is_text;
      special_extra_.insert(token.text());
      if (std::ranges::find(*extra_, token) == extra_->end()) extra_->push_back(std::move(token));
    }
    stated_[kExtra] = SettingsJson::array();
  }

  /// Tokens that are named or extra are special. transformers does not know yet at this point that
  /// objects in tokenizer_config.json are tokens.
  std::set<std::string> special_texts() const {
    std::set<std::string> texts = special_extra_;
    const auto take = [&](const SettingsJson& value) {
      if (value.is_string()) texts.insert(value.get<std::string>());
    };
    for (const char* const name : kNamedTokens) {
      if (const auto found = of_map_.find(name); found != of_map_.end())
        texts.insert(found->second.text());
      take(stated_.value(name, SettingsJson()));
    }
    if (const SettingsJson extra = stated_.value(kExtra, SettingsJson()); extra.is_array())
      for (const SettingsJson& one : extra) take(one);
    return texts;
  }

  void take_added_tokens() {
    if (files_.added_tokens.is_null()) return;
    const std::set<std::string> special = special_texts();
    for (const auto& [text, value] : files_.added_tokens.items()) {
      const std::optional<std::int64_t> id = id_of_value(value);
      if (!id) added_reader_.refuse("\"" + text + "\"", "an id", value);
      const bool is_special = special.contains(text);
      add(*id, {.text = text, .is_special = is_special, .normalized = !is_special});
    }
  }

  /// Of the file whose value of the key is used.
  const TokenReader& reader_of(const std::string& key) const {
    return !stated_.contains(kDecoder) && files_.special_map.contains(key) ? map_reader_
                                                                           : settings_reader_;
  }

  void add(std::int64_t id, const StatedToken& token) {
    made_.added.insert_or_assign(id, token);
    by_text_.insert_or_assign(token.text, token);
  }

  void take_named() {
    for (const char* const name : kNamedTokens) {
      std::optional<SpecialToken> token;
      if (const auto found = of_map_.find(name); found != of_map_.end())
        token = found->second;
      else if (!stated_.contains(name))
        continue;
      else if (const SettingsJson& value = stated_.at(name); !value.is_null())
        token = reader_of(name).special(value, name);
      if (token)
        if (const auto known = by_text_.find(token->text()); known != by_text_.end())
          token = SpecialToken{.token = known->second, .is_text = false};
      made_.named.set(name, std::move(token));
    }
  }

  static std::vector<SpecialToken> extra_of(const SettingsJson& list, const TokenReader& reader) {
    std::vector<SpecialToken> tokens;
    for (const SettingsJson& one : list) tokens.push_back(reader.special(one, kExtra));
    return tokens;
  }

  /// The old name counts if the new one is missing: special_tokens_map.json has it.
  void take_extra() {
    made_.has_extra = stated_.contains(kExtra);
    if (extra_) {
      made_.extra = *std::move(extra_);
      return;
    }
    const char* const key = stated_.contains(kExtra) ? kExtra : kAdditional;
    const SettingsJson stated = stated_.value(key, SettingsJson());
    if (of_map_.contains(key))
      map_reader_.refuse(key, "a list of tokens", files_.special_map.at(key));
    if (stated.is_null()) return;
    if (!stated.is_array()) reader_of(key).refuse(key, "a list of tokens", stated);
    made_.extra = extra_of(stated, reader_of(key));
  }

  /// Names that special_tokens_map.json adds, and objects that are marked as tokens; those that
  /// tokenizer_config.json has as texts come last, and win.
  void take_names_left() {
    for (const auto& [key, value] : stated_.items()) {
      if (is_named(key) || !key.ends_with("_token")) continue;
      if (const auto found = of_map_.find(key); found != of_map_.end())
        made_.other.set(key, found->second);
      else if (value.is_string() || is_marked_token(value))
        made_.other.set(key, reader_of(key).special(value, key));
    }
    for (const auto& [name, token] : specific_.entries()) made_.other.set(name, token);
  }

  const CompanionFiles& files_;
  const std::vector<FileToken>& of_file_;
  TokenReader settings_reader_, map_reader_, added_reader_;
  SettingsJson stated_;  ///< the rest of the settings, and the map's additions
  std::map<std::string, SpecialToken> of_map_;  ///< tokens of the map; `stated_` has a null there
  SpecialTokens specific_;                      ///< names of the model's own
  std::optional<std::vector<SpecialToken>> extra_;  ///< set if the map has a list as well
  std::set<std::string> special_extra_;             ///< texts of it that are known as tokens
  TextMap by_text_;                                 ///< of added tokens, the last of each text
  TokenArguments made_;
};

}  // namespace

void SpecialTokens::set(const std::string& name, std::optional<SpecialToken> token) {
  const auto known = std::ranges::find(entries_, name, &Entry::first);
  if (known != entries_.end())
    known->second = std::move(token);
  else
    entries_.emplace_back(name, std::move(token));
}

const std::optional<SpecialToken>* SpecialTokens::find(const std::string& name) const {
  const auto known = std::ranges::find(entries_, name, &Entry::first);
  return known == entries_.end() ? nullptr : &known->second;
}

std::optional<std::string> SpecialTokens::text_of(const std::string& name) const {
  const std::optional<SpecialToken>* const token = find(name);
  if (token == nullptr || !*token) return std::nullopt;
  return (*token)->text();
}

TokenArguments token_arguments(const CompanionFiles& files, const std::vector<FileToken>& of_file,
                               const std::string& what) {
  return Merging(files, of_file, what).merged();
}

}  // namespace accrue::data
