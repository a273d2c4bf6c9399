// The tokenizer of a GGUF file as a tokenizer.json.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "models/files/gguf/gguf_pre_tokenizers.h"
#include "models/files/gguf/gguf_token_types.h"
#include "models/files/gguf/gguf_tokenizer_keys.h"

namespace accrue::models {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* space_mark = "\u2581";  // what SentencePiece has for a space

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

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
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (type(i) != GgufTokenType::unused && !ids_.emplace(tokens_[i], i).second)
        throw file_.wrong_key("tokenizer.ggml.tokens", "each token once",
                              quoted_gguf_text(tokens_[i]) + " twice");
  }

  GgufTokenizer read() const {
    const bool is_bytes = model() == "gpt2";
    const Json tokenizer = is_bytes ? of_bytes() : of_characters();
    GgufTokenizer made;
    try {
      made.tokenizer = tokenizer.dump(1);
      made.settings = settings().dump(1);
    } catch (const nlohmann::json::exception&) {
      throw file_.wrong_key("tokenizer.ggml.tokens", "tokens of UTF-8", "another encoding");
    }
    if (file_.has("tokenizer.chat_template"))
      made.chat_template = file_.text("tokenizer.chat_template");
    return made;
  }

 private:
  const std::string& model() const { return file_.text("tokenizer.ggml.model"); }

  /// All ways to cut a token are looked at.
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
      types_ = file_.wholes(key);
      if (types_.size() != tokens_.size())
        throw file_.wrong_key(key, std::to_string(tokens_.size()) + " types, one for each token",
                              std::to_string(types_.size()));
      return;
    }
    types_.assign(tokens_.size(), static_cast<std::int64_t>(GgufTokenType::normal));
    for (const char* name : {"bos", "eos", "unknown", "padding"})
      if (const auto id = special(name))
        types_[*id] = static_cast<std::int64_t>(GgufTokenType::control);
  }

  GgufTokenType type(std::size_t id) const { return static_cast<GgufTokenType>(types_[id]); }

  bool is_added(std::size_t id) const {
    return type(id) == GgufTokenType::control || type(id) == GgufTokenType::user_defined ||
           type(id) == GgufTokenType::unknown;
  }

  /// The id of the token for `name`; none where no key states it.
  std::optional<std::size_t> special(const std::string& name) const {
    const std::string key = "tokenizer.ggml." + name + "_token_id";
    if (!file_.has(key)) return std::nullopt;
    const std::int64_t id = file_.whole(key);
    if (id < 0 || id >= std::ssize(tokens_))
      throw file_.wrong_key(key, "an id below " + std::to_string(tokens_.size()),
                            std::to_string(id));
    return static_cast<std::size_t>(id);
  }

  Json added_tokens() const {
    Json all = Json::array();
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

  /// Added tokens, too: those that are not here would get other ids.
  Json vocabulary() const {
    Json all = Json::object();
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (type(id) != GgufTokenType::unused) all[tokens_[id]] = id;
    return all;
  }

  Json around(bool begins, bool ends) const {
    const auto begin = special("bos"), end = special("eos");
    Json single = Json::array(), tokens = Json::object();
    const auto put = [&](std::size_t id) {
      const std::string& token = tokens_[id];
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      tokens[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    };
    if (begins && begin) put(*begin);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    if (ends && end) put(*end);
    if (tokens.empty()) return nullptr;
    Json pair = single;
    for (Json piece : single) {
      if (piece.contains("Sequence")) piece["Sequence"]["id"] = "B";
      pair.push_back(std::move(piece));
    }
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", pair},
            {"special_tokens", tokens}};
  }

  Json joined(Json normalizer, Json pre_tokenizer, Json decoder, Json bpe, bool begins) const {
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

  static Json bpe(Json unknown, bool has_bytes, bool ignores_merges, Json vocab, Json merges) {
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

  Json of_bytes() const {
    constexpr const char* key = "tokenizer.ggml.pre";
    const std::string name = file_.has(key) ? file_.text(key) : "default";
    const auto cut = find_gguf_pre_tokenizer(name);
    if (!cut) throw file_.wrong_key(key, listed_gguf_pre_tokenizers(), quoted_gguf_text(name));
    const Json decoder = {{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", true},
                          {"use_regex", true}};
    return joined(cut->normalizer, cut->pre_tokenizer, decoder,
                  bpe(nullptr, false, cut->ignores_merges, vocabulary(),
                      file_.texts("tokenizer.ggml.merges")),
                  cut->begins_text);
  }

  Json of_characters() const {
    const bool prepends = file_.flag_or("tokenizer.ggml.add_space_prefix", true);
    const auto unknown = special("unknown");
    const Json to_mark = replace(" ", space_mark), from_mark = replace(space_mark, " ");
    Json normalizer = to_mark;
    if (prepends)
      normalizer = {{"type", "Sequence"},
                    {"normalizers", {{{"type", "Prepend"}, {"prepend", space_mark}}, to_mark}}};
    Json steps = {from_mark, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (prepends) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    return joined(normalizer, nullptr, {{"type", "Sequence"}, {"decoders", steps}},
                  bpe(unknown ? Json(tokens_[*unknown]) : Json(), true, false, vocabulary(),
                      merges_by_score()),
                  true);
  }

  struct Merge {
    std::size_t left, right;
    double score;
    std::int64_t left_characters, right_characters;
  };

  /// All ways to put a token together from two, the likeliest tokens first, as transformers orders
  /// those of a SentencePiece model.
  Json merges_by_score() const {
    std::vector<Merge> merges;
    const std::vector<double>& scores = file_.numbers("tokenizer.ggml.scores");
    if (scores.size() != tokens_.size())
      throw file_.wrong_key("tokenizer.ggml.scores",
                            std::to_string(tokens_.size()) + " scores, one for each token",
                            std::to_string(scores.size()));
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (type(id) == GgufTokenType::normal) append_merges(id, scores[id], merges);
    std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
      return std::tuple(a.score, a.left_characters, a.right_characters) >
             std::tuple(b.score, b.left_characters, b.right_characters);
    });
    Json all = Json::array();
    for (const Merge& merge : merges)
      all.push_back(Json::array({tokens_[merge.left], tokens_[merge.right]}));
    return all;
  }

  void append_merges(std::size_t id, double score, std::vector<Merge>& merges) const {
    if (std::isnan(score)) throw file_.wrong_key("tokenizer.ggml.scores", "numbers", "NaN");
    const std::string_view token = tokens_[id];
    const auto first = merges.end() - merges.begin();
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const std::string_view left_text = token.substr(0, cut), right_text = token.substr(cut);
      const auto left = ids_.find(left_text), right = ids_.find(right_text);
      if (left == ids_.end() || right == ids_.end()) continue;
      merges.push_back({left->second, right->second, score, characters_of(left_text),
                        characters_of(right_text)});
    }
    std::sort(merges.begin() + first, merges.end(), [](const Merge& a, const Merge& b) {
      return std::pair(a.left, a.right) < std::pair(b.left, b.right);
    });
  }

  Json settings() const {
    Json all = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                {"clean_up_tokenization_spaces", false}};
    const std::pair<const char*, const char*> names[] = {{"bos", "bos_token"},
                                                         {"eos", "eos_token"},
                                                         {"unknown", "unk_token"},
                                                         {"padding", "pad_token"}};
    for (const auto& [own, hub] : names)
      if (const auto id = special(own)) all[hub] = tokens_[*id];
    return all;
  }

  const GgufFile& file_;
  const std::vector<std::string>& tokens_;
  std::vector<std::int64_t> types_;
  std::unordered_map<std::string_view, std::size_t> ids_;
};

}  // namespace

std::optional<GgufTokenizer> tokenizer_of(const GgufFile& file) {
  constexpr const char* key = "tokenizer.ggml.model";
  if (!file.has(key) || file.text(key) == "none" || file.text(key) == "no_vocab")
    return std::nullopt;
  if (file.text(key) != "gpt2" && file.text(key) != "llama")
    throw file.wrong_key(key, "gpt2 (byte-level BPE) or llama (SentencePiece's BPE)",
                         quoted_gguf_text(file.text(key)));
  return TokenizerOfGguf(file).read();
}

}  // namespace accrue::models
