// The tokenizer of a GGUF file as a tokenizer.json.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "data/tokenizer/pipeline/part_forms.h"
#include "models/files/gguf/tokenizer/gguf_merges.h"
#include "models/files/gguf/tokenizer/gguf_pre_tokenizers.h"
#include "models/files/gguf/tokenizer/gguf_token_types.h"
#include "models/files/gguf/tokenizer/gguf_tokenizer_keys.h"

namespace accrue::models {
namespace {

using nlohmann::json;

std::int64_t characters_of(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

class TokenizerOfGguf {
 public:
  explicit TokenizerOfGguf(const GgufFile& file)
      : file_(file), tokens_(file.texts("tokenizer.ggml.tokens")) {
    read_types();
    check_lengths();
    std::unordered_set<std::string_view> known;
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (type(i) != GgufTokenType::unused && !known.insert(tokens_[i]).second)
        throw file_.wrong_key("tokenizer.ggml.tokens", "each token once",
                              quoted_gguf_text(tokens_[i]) + " twice");
  }

  GgufTokenizer read() const {
    const bool is_bytes = model() == "gpt2";
    const json tokenizer = is_bytes ? of_bytes() : of_characters();
    GgufTokenizer made;
    try {
      made.tokenizer = tokenizer.dump(1);
      made.settings = settings().dump(1);
    } catch (const json::exception&) {
      throw file_.wrong_key("tokenizer.ggml.tokens", "tokens of UTF-8", "another encoding");
    }
    made.chat_templates = chat_templates();
    end_tokens();  // throws if one of them is not a token
    return made;
  }

  std::vector<std::int64_t> end_tokens() const {
    std::vector<std::int64_t> ids;
    for (const char* name : {"eos", "eot", "eom"})
      if (const auto id = named(name))
        if (std::find(ids.begin(), ids.end(), static_cast<std::int64_t>(*id)) == ids.end())
          ids.push_back(static_cast<std::int64_t>(*id));
    return ids;
  }

 private:
  const std::string& model() const { return file_.text("tokenizer.ggml.model"); }

  /// All ways to cut a token are examined.
  void check_lengths() const {
    constexpr std::size_t longest = 1024;
    for (const std::string& token : tokens_)
      if (token.size() > longest)
        throw file_.wrong_key("tokenizer.ggml.tokens",
                              "tokens of at most " + std::to_string(longest) + " bytes",
                              "one of " + std::to_string(token.size()));
  }

  void read_types() {
    constexpr const char* key = "tokenizer.ggml.token_type";
    if (file_.has(key)) {
      for (const std::int64_t number : file_.wholes(key))
        types_.push_back(static_cast<GgufTokenType>(number));
      if (types_.size() != tokens_.size())
        throw file_.wrong_key(key, std::to_string(tokens_.size()) + " types, one for each token",
                              std::to_string(types_.size()));
      return;
    }
    types_.assign(tokens_.size(), GgufTokenType::normal);
    for (const char* name : {"bos", "eos", "unknown", "padding"})
      if (const auto id = special(name)) types_[*id] = GgufTokenType::control;
  }

  GgufTokenType type(std::size_t id) const { return types_[id]; }

  bool is_added(std::size_t id) const {
    return type(id) == GgufTokenType::control || type(id) == GgufTokenType::user_defined ||
           type(id) == GgufTokenType::unknown;
  }

  /// The id of the token for `name`; none if no key states it.
  std::optional<std::size_t> special(const std::string& name) const {
    const std::string key = "tokenizer.ggml." + name + "_token_id";
    if (!file_.has(key)) return std::nullopt;
    const std::int64_t id = file_.whole(key);
    if (id < 0 || id >= std::ssize(tokens_))
      throw file_.wrong_key(key, "an id below " + std::to_string(tokens_.size()),
                            std::to_string(id));
    return static_cast<std::size_t>(id);
  }

  /// The same, if a text can produce it: a file without such a token may name a row that none
  /// produces.
  std::optional<std::size_t> named(const std::string& name) const {
    const auto id = special(name);
    return id && type(*id) == GgufTokenType::unused ? std::nullopt : id;
  }

  json added_tokens() const {
    json all = json::array();
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (is_added(id))
        all.push_back({{"id", id},
                       {"content", tokens_[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type(id) != GgufTokenType::user_defined}});
    return all;
  }

  /// Includes added tokens: missing ones would get other ids.
  json vocabulary() const {
    json all = json::object();
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (type(id) != GgufTokenType::unused) all[tokens_[id]] = id;
    return all;
  }

  json around(bool begins, bool ends) const {
    const auto begin = named("bos"), end = named("eos");
    json single = json::array(), tokens = json::object();
    const auto put = [&](std::size_t id) {
      const std::string& token = tokens_[id];
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    };
    if (begins && begin) put(*begin);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (ends && end) put(*end);
    if (tokens.empty()) return nullptr;
    json pair = single;
    for (json piece : single) {
      if (piece.contains("Sequence")) piece["Sequence"]["id"] = "B";
      pair.push_back(std::move(piece));
    }
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", pair},
            {"special_tokens", tokens}};
  }

  json joined(json normalizer, json pre_tokenizer, json decoder, json bpe, bool begins) const {
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"normalizer", std::move(normalizer)},
            {"pre_tokenizer", std::move(pre_tokenizer)},
            {"post_processor", around(file_.flag_or("tokenizer.ggml.add_bos_token", begins),
                                      file_.flag_or("tokenizer.ggml.add_eos_token", false))},
            {"decoder", std::move(decoder)},
            {"model", std::move(bpe)}};
  }

  static json bpe(json unknown, bool has_bytes, bool ignores_merges, json vocab, json merges) {
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", std::move(unknown)},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", has_bytes},
            {"byte_fallback", has_bytes},
            {"ignore_merges", ignores_merges},
            {"vocab", std::move(vocab)},
            {"merges", std::move(merges)}};
  }

  json of_bytes() const {
    constexpr const char* key = "tokenizer.ggml.pre";
    const std::string name = file_.has(key) ? file_.text(key) : "default";
    const auto cut = find_gguf_pre_tokenizer(name);
    if (!cut) throw file_.wrong_key(key, listed_gguf_pre_tokenizers(), quoted_gguf_text(name));
    return joined(nullptr, cut->pre_tokenizer, data::byte_level_step(false, true),
                  bpe(nullptr, false, cut->ignores_merges, vocabulary(),
                      file_.texts("tokenizer.ggml.merges")),
                  cut->begins_text);
  }

  json of_characters() const {
    const bool prepends = file_.flag_or("tokenizer.ggml.add_space_prefix", true);
    const auto unknown = named("unknown");
    const json to_mark = data::replace_step(" ", data::kMarkedSpace);
    json normalizer = to_mark;
    if (prepends)
      normalizer = {
          {"type", "Sequence"},
          {"normalizers", {{{"type", "Prepend"}, {"prepend", data::kMarkedSpace}}, to_mark}}};
    return joined(normalizer, nullptr, data::decoder_of_marked_spaces(prepends),
                  bpe(unknown ? json(tokens_[*unknown]) : json(), true, false, vocabulary(),
                      merges_by_score()),
                  true);
  }

  struct ScoredMerge {
    GgufMerge merge;
    double score;
    std::int64_t left_characters, right_characters;
  };

  /// All ways to make a token from two, the likeliest tokens first, in transformers' order for a
  /// SentencePiece model.
  json merges_by_score() const {
    constexpr const char* key = "tokenizer.ggml.scores";
    const std::vector<double>& scores = file_.numbers(key);
    if (scores.size() != tokens_.size())
      throw file_.wrong_key(key, std::to_string(tokens_.size()) + " scores, one for each token",
                            std::to_string(scores.size()));
    std::vector<ScoredMerge> merges;
    for (const GgufMerge& merge : all_gguf_merges(tokens_, types_)) {
      const double score = scores[merge.whole];
      if (std::isnan(score)) throw file_.wrong_key(key, "numbers", "NaN");
      merges.push_back(
          {merge, score, characters_of(tokens_[merge.left]), characters_of(tokens_[merge.right])});
    }
    std::stable_sort(merges.begin(), merges.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
      return std::tuple(a.score, a.left_characters, a.right_characters) >
             std::tuple(b.score, b.left_characters, b.right_characters);
    });
    check_order(merges);
    json all = json::array();
    for (const ScoredMerge& one : merges)
      all.push_back(json::array({tokens_[one.merge.left], tokens_[one.merge.right]}));
    return all;
  }

  /// Among tokens with one score llama.cpp makes the leftmost, whichever it is; ranks of merges
  /// cannot express that.
  void check_order(const std::vector<ScoredMerge>& merges) const {
    const ScoredMerge* before = nullptr;
    for (const ScoredMerge& one : merges) {
      if (type(one.merge.whole) != GgufTokenType::normal) continue;
      if (before != nullptr && before->score == one.score && before->merge.whole != one.merge.whole)
        throw file_.wrong_key("tokenizer.ggml.scores", "another score for each token",
                              "the same for " + quoted_gguf_text(tokens_[before->merge.whole]) +
                                  " and " + quoted_gguf_text(tokens_[one.merge.whole]));
      before = &one;
    }
  }

  std::map<std::string, std::string> chat_templates() const {
    constexpr const char* usual = "tokenizer.chat_template";
    constexpr const char* names = "tokenizer.chat_templates";
    std::map<std::string, std::string> all;
    if (file_.has(usual)) all["default"] = file_.text(usual);
    if (!file_.has(names)) return all;
    constexpr std::string_view letters =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (const std::string& name : file_.texts(names)) {
      if (name.empty() || name.find_first_not_of(letters) != name.npos)
        throw file_.wrong_key(names, "names of letters, digits and _", quoted_gguf_text(name));
      all[name] = file_.text(std::string(usual) + '.' + name);
    }
    return all;
  }

  json settings() const {
    json all = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                {"clean_up_tokenization_spaces", false}};
    const std::pair<const char*, const char*> names[] = {{"bos", "bos_token"},
                                                         {"eos", "eos_token"},
                                                         {"unknown", "unk_token"},
                                                         {"padding", "pad_token"}};
    for (const auto& [own, hub] : names)
      if (const auto id = named(own)) all[hub] = tokens_[*id];
    return all;
  }

  const GgufFile& file_;
  const std::vector<std::string>& tokens_;
  std::vector<GgufTokenType> types_;
};

/// Throws if they are of a kind that this version does not read.
bool has_tokens(const GgufFile& file) {
  constexpr const char* key = "tokenizer.ggml.model";
  if (!file.has(key) || file.text(key) == "none" || file.text(key) == "no_vocab") return false;
  if (file.text(key) != "gpt2" && file.text(key) != "llama")
    throw file.wrong_key(key, "gpt2 (byte-level BPE) or llama (SentencePiece's BPE)",
                         quoted_gguf_text(file.text(key)));
  return true;
}

}  // namespace

std::optional<GgufTokenizer> tokenizer_of(const GgufFile& file) {
  if (!has_tokens(file)) return std::nullopt;
  return TokenizerOfGguf(file).read();
}

std::optional<GgufTokenizer> read_gguf_tokenizer(const std::filesystem::path& file) {
  return tokenizer_of(GgufFile(file));
}

std::vector<std::int64_t> read_gguf_end_tokens(const std::filesystem::path& path) {
  const GgufFile file(path);
  if (!has_tokens(file)) return {};
  return TokenizerOfGguf(file).end_tokens();
}

}  // namespace accrue::models
