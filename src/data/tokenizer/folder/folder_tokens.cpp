#include "data/tokenizer/folder/folder_tokens.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "core/json_extent.h"
#include "data/json/json_part.h"
#include "data/tokenizer/folder/added_vocabulary.h"
#include "data/tokenizer/folder/class_parts.h"
#include "data/tokenizer/folder/mistral_pattern.h"
#include "data/tokenizer/folder/stated_token.h"
#include "data/tokenizer/folder/token_arguments.h"
#include "data/tokenizer/folder/tokenizer_class.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "data/tokenizer/folder/tokenizer_settings.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;
using SettingsJson = nlohmann::ordered_json;

constexpr const char* kAsItIs =
    "\"tokenizer_class\": \"PreTrainedTokenizerFast\" in "
    "tokenizer_config.json, if tokenizer.json alone is meant";

/// Discarded if it is not JSON. Parts are read by recursion, so their depth is bounded.
Json parsed_shallowly(const std::string& content, const std::string& operation) {
  if (extent_of_json(content).depth > kDeepestJson)
    throw usage_error(operation, "parts within at most " + std::to_string(kDeepestJson) + " others",
                      "deeper ones", whole_tokenizer_file);
  return Json::parse(content, nullptr, /*allow_exceptions=*/false);
}

FileToken read_file_token(const Json& stated, const std::string& operation) {
  constexpr std::int64_t most_ids = 1 << 24;
  const JsonPart part(stated, operation, "added_tokens");
  return {.id = part.integer("id", most_ids),
          .token = {.text = part.text("content"),
                    .is_special = part.flag("special", false),
                    .is_word = part.flag("single_word", false),
                    .strips_left = part.flag("lstrip", false),
                    .strips_right = part.flag("rstrip", false),
                    .normalized = part.flag("normalized", true)}};
}

std::vector<FileToken> read_file_tokens(const Json& tokenizer, const std::string& operation) {
  const JsonPart root(tokenizer, operation, "the file");
  std::vector<FileToken> tokens;
  if (root.value("added_tokens").is_null()) return tokens;
  for (const Json& stated : root.list("added_tokens"))
    tokens.push_back(read_file_token(stated, operation));
  return tokens;
}

/// Everything but vocabulary and merges that decides the ids of a text.
Json parts_beside_vocabulary(const Json& tokenizer) {
  Json parts = Json::object();
  for (const char* const name :
       {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"})
    parts[name] = tokenizer.value(name, Json());
  const auto model = tokenizer.find("model");
  if (model != tokenizer.end() && model->is_object())
    for (const auto& [key, value] : model->items())
      if (key != "vocab" && key != "merges") parts["model"][key] = value;
  return parts;
}

std::vector<std::int64_t> end_ids_of(const Json& config, const std::filesystem::path& file,
                                     const std::string& what) {
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  std::vector<std::int64_t> ids;
  const Json stated = config.value("eos_token_id", Json());
  for (const Json& one : stated.is_array() ? stated : Json::array({stated})) {
    if (one.is_null()) continue;
    if (!one.is_number_integer())
      throw usage_error(what + ": " + file.string(),
                        "\"eos_token_id\" to be a token's id or a list of such", short_form(one),
                        "the file that the model came with");
    if (one.is_number_unsigned() && one.get<std::uint64_t>() < most)
      ids.push_back(one.get<std::int64_t>());
  }
  return ids;
}

/// The tokenizer, as it is changed step by step to transformers' final one.
class FolderReading {
 public:
  FolderReading(const std::filesystem::path& file, const std::string& what)
      : what_(what),
        operation_(what + ": " + file.string()),
        folder_(file.parent_path()),
        settings_reader_(what + ": " + (folder_ / kTokenizerSettings).string()),
        content_(read_file(file)),
        tokenizer_(parsed_shallowly(content_, operation_)) {
    if (!tokenizer_.is_object())
      throw usage_error(operation_, "a tokenizer.json", "a file that is no JSON object",
                        whole_tokenizer_file);
    files_.folder = folder_;
    files_.settings = read_tokenizer_settings(file, what);
    files_.special_map = read_settings_file(folder_ / kSpecialTokensMap, what);
    files_.added_tokens = read_settings_file(folder_ / kAddedTokens, what);
    config_ = read_config_file(folder_ / kModelConfig, what);
  }

  FolderTokens read() {
    expect_one_version();
    const Json before = parts_beside_vocabulary(tokenizer_);
    const std::vector<FileToken> of_file = read_file_tokens(tokenizer_, operation_);
    arguments_ = token_arguments(files_, of_file, what_);
    class_ = parts_of_folder();
    if (class_) bring_parts();
    AddedVocabulary added(vocabulary());
    if (!class_) added.add(tokens_of(of_file));
    name_tokens();
    add_tokens(added);
    put_around(added);
    if (has_mistral_correction(files_.settings, config_, added.size()))
      tokenizer_["pre_tokenizer"] =
          corrected_for_mistral(tokenizer_.value("pre_tokenizer", Json()));
    tokenizer_["added_tokens"] = added.to_json();
    return result(before);
  }

 private:
  static std::vector<StatedToken> tokens_of(const std::vector<FileToken>& tokens) {
    std::vector<StatedToken> all;
    for (const FileToken& one : tokens) all.push_back(one.token);
    return all;
  }

  /// transformers reads the file of the newest version that is not newer than itself.
  void expect_one_version() const {
    const SettingsJson versions = files_.settings.value("fast_tokenizer_files", SettingsJson());
    if (!versions.is_array()) return;
    for (const SettingsJson& one : versions) {
      if (!one.is_string()) continue;
      const std::string_view name = one.get_ref<const std::string&>();
      if (name != kTokenizerFile && name.starts_with("tokenizer.") && name.ends_with(".json"))
        settings_reader_.refuse("fast_tokenizer_files", "tokenizer.json alone", versions);
    }
  }

  bool is_bpe() const {
    const auto model = tokenizer_.find("model");
    return model != tokenizer_.end() && model->is_object() && model->value("type", Json()) == "BPE";
  }

  /// For other models the reader of the vocabulary reports that it does not know them.
  std::optional<ClassParts> parts_of_folder() const {
    if (!is_bpe()) return std::nullopt;
    const std::string name =
        tokenizer_class_of({.settings = files_.settings,
                            .config = config_,
                            .has_byte_level = content_.find("\"ByteLevel\"") != std::string::npos});
    if (name.empty()) return std::nullopt;
    std::optional<ClassParts> parts = parts_of_class(name, files_.settings, settings_reader_);
    if (parts) return parts;
    throw usage_error(what_ + ": " + folder_.string(),
                      "a tokenizer whose class this version knows, or no class of its own",
                      name + ", by tokenizer_config.json or config.json", kAsItIs);
  }

  /// Sets the parts that the class supplies, whatever the file has.
  void bring_parts() {
    tokenizer_["normalizer"] = class_->normalizer;
    tokenizer_["pre_tokenizer"] = class_->pre_tokenizer;
    tokenizer_["decoder"] = class_->decoder;
    Json& model = tokenizer_["model"];
    model["dropout"] = nullptr;
    model["continuing_subword_prefix"] = "";
    model["end_of_word_suffix"] = "";
    model["fuse_unk"] = class_->fuses_unknown;
    model["byte_fallback"] = class_->falls_back_to_bytes;
    model["ignore_merges"] = false;
    model["unk_token"] = nullptr;
  }

  /// Null if there is none. Changes to the rest of the tokenizer do not move it.
  const Json& vocabulary() const {
    const auto model = tokenizer_.find("model");
    if (model == tokenizer_.end() || !model->is_object()) return no_vocabulary_;
    const auto found = model->find("vocab");
    return found == model->end() ? no_vocabulary_ : *found;
  }

  /// The special tokens, by name: the stated ones, those of the class, and the one for padding in
  /// tokenizer.json.
  void name_tokens() {
    SpecialTokens stated = arguments_.named;
    const auto take_unless_stated = [&](const char* name, std::optional<std::string> text) {
      if (stated.has(name)) return;
      stated.set(name, text ? std::optional(SpecialToken{.token = {.text = *std::move(text)}})
                            : std::nullopt);
    };
    if (class_)
      for (const auto& [name, text] : class_->named) take_unless_stated(name, text);
    if (const Json padding = tokenizer_.value("padding", Json()); padding.is_object())
      if (const Json token = padding.value("pad_token", Json()); token.is_string())
        take_unless_stated("pad_token", token.get<std::string>());
    for (const char* const name : kNamedTokens) named_.set(name, std::nullopt);
    for (const auto& [name, token] : stated.entries()) named_.set(name, token);
    for (const auto& [name, token] : arguments_.other.entries()) named_.set(name, token);
    if (class_ && class_->names_unknown)
      if (const auto unknown = named_.text_of("unk_token"))
        tokenizer_["model"]["unk_token"] = *unknown;
    if (class_ && !arguments_.has_extra)
      for (const std::string& text : class_->extra)
        arguments_.extra.push_back({.token = {.text = text}});
  }

  /// Like the end of TokenizersBackend.__init__: adds the stated tokens, and special tokens that
  /// were not added by then.
  void add_tokens(AddedVocabulary& added) const {
    std::vector<StatedToken> tokens;
    std::set<std::string> known, named;
    for (const auto& [id, token] : arguments_.added) {
      tokens.push_back(token);
      known.insert(token.text);
    }
    std::vector<SpecialToken> more;
    const auto take = [&](const SpecialToken& token) {
      if (added.has(token.text()) || known.contains(token.text())) return;
      if (std::ranges::find(more, token) == more.end()) more.push_back(token);
    };
    for (const auto& [name, token] : named_.entries()) {
      if (!token) continue;
      named.insert(token->text());
      take(*token);
    }
    std::ranges::for_each(arguments_.extra, take);
    for (SpecialToken& one : more) {
      one.token.is_special = one.token.is_special || one.is_text;
      tokens.push_back(std::move(one.token));
    }
    for (StatedToken& token : tokens)
      token.is_special = token.is_special || named.contains(token.text);
    added.add(tokens);
    if (class_) added.add(added_afterwards());
  }

  std::vector<StatedToken> added_afterwards() const {
    using enum ClassParts::SpecialTokenRule;
    std::vector<StatedToken> tokens;
    if (class_->afterwards == nothing) return tokens;
    std::set<std::string> seen;
    const auto take = [&](const SpecialToken& special) {
      const bool is_first = seen.insert(special.text()).second;
      if (class_->afterwards == added_again) {
        if (is_first) tokens.push_back({.text = special.text(), .is_special = true});
        return;
      }
      StatedToken token = special.token;
      token.is_special = true;
      if (special.is_text) token.normalized = false;
      tokens.push_back(std::move(token));
    };
    for (const auto& [name, token] : named_.entries())
      if (token) take(*token);
    std::ranges::for_each(arguments_.extra, take);
    return tokens;
  }

  void put_around(const AddedVocabulary& added) {
    using enum ClassParts::PostProcessorRule;
    if (!class_ || class_->around == as_stated) return;
    Json& around = tokenizer_["post_processor"] = nullptr;
    if (class_->around == of_classifier)
      around = {{"type", "RobertaProcessing"},
                {"sep", named_pair("sep_token", added)},
                {"cls", named_pair("cls_token", added)},
                {"trim_offsets", true},
                {"add_prefix_space", false}};
    if (class_->around == beginning && named_.text_of("bos_token")) {
      const Json begin = named_pair("bos_token", added);
      around = {{"type", "TemplateProcessing"},
                {"single", Json::array({{{"SpecialToken", {{"id", begin[0]}, {"type_id", 0}}}},
                                        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}})},
                {"special_tokens",
                 {{begin[0].get<std::string>(),
                   {{"id", begin[0]},
                    {"ids", Json::array({begin[1]})},
                    {"tokens", Json::array({begin[0]})}}}}}};
    }
  }

  /// Text and id of a token that the class puts around texts.
  Json named_pair(const char* name, const AddedVocabulary& added) const {
    const std::optional<std::string> text = named_.text_of(name);
    const std::optional<std::int64_t> id = text ? added.id_of(*text) : std::nullopt;
    if (!id) settings_reader_.refuse(name, "a token", text ? SettingsJson(*text) : SettingsJson());
    return Json::array({*text, *id});
  }

  FolderTokens result(const Json& before) {
    FolderTokens read;
    read.settings = merged_settings();
    read.bos = named_.text_of("bos_token");
    read.eos = named_.text_of("eos_token");
    read.pad = named_.text_of("pad_token");
    read.unk = named_.text_of("unk_token");
    read.end_ids = read_end_ids();
    read.splits_special_tokens =
        files_.settings.value("split_special_tokens", SettingsJson()) == true;
    read.fingerprint = checksum_of(content_);
    const Json after = parts_beside_vocabulary(tokenizer_);
    if (after != before) read.fingerprint = checksum_of(read.fingerprint + after.dump());
    if (read.splits_special_tokens)
      read.fingerprint = checksum_of(read.fingerprint + "split_special_tokens");
    read.tokenizer = std::move(tokenizer_);
    return read;
  }

  std::vector<std::int64_t> read_end_ids() const {
    const std::filesystem::path file = folder_ / kGenerationConfig;
    const Json generation = read_config_file(file, what_);
    std::vector<std::int64_t> ids;
    if (!generation.is_null()) ids = end_ids_of(generation, file, what_);
    if (ids.empty() && !config_.is_null()) ids = end_ids_of(config_, folder_ / kModelConfig, what_);
    return ids;
  }

  SettingsJson merged_settings() const {
    SettingsJson merged = files_.settings;
    for (const auto& [name, token] : named_.entries())
      if (token)
        merged[name] = token->text();
      else if (merged.contains(name))
        merged[name] = nullptr;
    if (!files_.special_map.is_null() && !arguments_.extra.empty()) {
      SettingsJson texts = SettingsJson::array();
      for (const SpecialToken& one : arguments_.extra) texts.push_back(one.text());
      merged.erase("additional_special_tokens");
      merged["extra_special_tokens"] = std::move(texts);
    }
    return merged;
  }

  std::string what_;
  std::string operation_;
  std::filesystem::path folder_;
  TokenReader settings_reader_;
  std::string content_;
  Json tokenizer_, config_, no_vocabulary_;
  CompanionFiles files_;
  TokenArguments arguments_;
  std::optional<ClassParts> class_;
  SpecialTokens named_;
};

}  // namespace

FolderTokens read_folder_tokens(const std::filesystem::path& tokenizer_file,
                                const std::string& what) {
  return FolderReading(tokenizer_file, what).read();
}

}  // namespace accrue::data
