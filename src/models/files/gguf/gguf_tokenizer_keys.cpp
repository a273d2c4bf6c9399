#include "models/files/gguf/gguf_tokenizer_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/atomic_file.h"
#include "models/files/gguf/gguf_pre_tokenizers.h"
#include "models/files/gguf/gguf_token_types.h"

namespace accrue::models {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

/// The file `name` beside the tokenizer, as JSON; an empty object where there is none.
Json json_beside(const fs::path& tokenizer, const char* name) {
  const fs::path file = tokenizer.parent_path() / name;
  std::error_code unreadable;
  if (!fs::exists(file, unreadable)) return Json::object();
  Json parsed = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  return parsed.is_object() ? parsed : Json::object();
}

/// A member of an object; null for everything else.
const Json& member(const Json& of, std::string_view name) {
  static const Json none;
  if (!of.is_object()) return none;
  const auto found = of.find(name);
  return found == of.end() ? none : *found;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

bool is_true(const Json& value) { return value.is_boolean() && value.get<bool>(); }

/// Whether `part`, or a step in it, is of type `type`.
bool has_step(const Json& part, std::string_view type) {
  if (text_of(member(part, "type")) == type) return true;
  for (const char* steps : {"normalizers", "pretokenizers", "processors"})
    for (const Json& step : member(part, steps))
      if (has_step(step, type)) return true;
  return false;
}

/// The tokens that a post-processor puts before and behind a text.
struct Template {
  std::string before, after;
};

Template template_of(const Json& post_processor) {
  if (text_of(member(post_processor, "type")) == "Sequence") {
    for (const Json& step : member(post_processor, "processors"))
      if (const Template found = template_of(step); !(found.before + found.after).empty())
        return found;
    return {};
  }
  Template found;
  bool is_behind = false;
  for (const Json& piece : member(post_processor, "single")) {
    const std::string token = text_of(member(member(piece, "SpecialToken"), "id"));
    if (token.empty())
      is_behind = true;
    else
      (is_behind ? found.after : found.before) = token;
  }
  return found;
}

class TokenizerKeys {
 public:
  TokenizerKeys(const fs::path& file, std::int64_t vocab, const std::string& operation,
                GgufKeyWriter& keys)
      : file_(file), vocab_(vocab), operation_(operation), keys_(keys) {
    json_ = Json::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  }

  void add() {
    const Json& model = member(json_, "model");
    if (text_of(member(model, "type")) != "BPE" || !member(model, "vocab").is_object())
      refuse("a tokenizer.json of BPE", "another one");
    place_tokens(model);
    if (is_true(member(model, "byte_fallback")))
      add_characters(model);
    else
      add_bytes(model);
    keys_.add("tokenizer.ggml.tokens", tokens_);
    keys_.add("tokenizer.ggml.token_type", types_);
    add_specials();
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const {
    throw usage_error(operation_ + ", tokenizer " + file_.string(), expected, received,
                      "--format hf, which takes the tokenizer's files along as they are");
  }

  void place(const std::string& token, const Json& id, GgufTokenType type) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= vocab_)
      refuse("ids below " + std::to_string(vocab_) + ", as the model has tokens",
             "\"" + token + "\" with id " + id.dump());
    const auto at = id.get<std::size_t>();
    tokens_[at] = token;
    types_[at] = static_cast<std::int32_t>(type);
    ids_[token] = id.get<std::int64_t>();
  }

  void place_tokens(const Json& model) {
    const std::string unknown = text_of(member(model, "unk_token"));
    const bool has_bytes = is_true(member(model, "byte_fallback"));
    tokens_.resize(static_cast<std::size_t>(vocab_));
    types_.assign(tokens_.size(), static_cast<std::int32_t>(GgufTokenType::unused));
    for (std::size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = "[PAD" + std::to_string(i) + ']';
    for (const auto& [token, id] : member(model, "vocab").items())
      place(token, id,
            has_bytes && is_byte_token(token) ? GgufTokenType::byte : GgufTokenType::normal);
    for (const Json& added : member(json_, "added_tokens"))
      place(
          text_of(member(added, "content")), member(added, "id"),
          is_true(member(added, "special")) ? GgufTokenType::control : GgufTokenType::user_defined);
    if (const auto id = ids_.find(unknown); has_bytes && id != ids_.end())
      place(unknown, id->second, GgufTokenType::unknown);
  }

  /// Both halves of each merge, in order of rank.
  std::vector<std::pair<std::string, std::string>> merges_of(const Json& model) const {
    std::vector<std::pair<std::string, std::string>> merges;
    for (const Json& merge : member(model, "merges")) {
      if (merge.is_array() && merge.size() == 2) {
        merges.emplace_back(text_of(merge[0]), text_of(merge[1]));
        continue;
      }
      const std::string both = text_of(merge);
      const std::size_t space = both.find(' ');
      if (space == both.npos) refuse("merges of two tokens", merge.dump());
      merges.emplace_back(both.substr(0, space), both.substr(space + 1));
    }
    return merges;
  }

  void add_bytes(const Json& model) {
    const auto merges = merges_of(model);
    // Without merges it does not matter how text is cut.
    const auto name = merges.empty() ? std::optional<std::string>("gpt-2")
                                     : name_of_pre_tokenizer(member(json_, "pre_tokenizer"));
    if (!name)
      refuse("a pre-tokenizer that llama.cpp has (" + listed_gguf_pre_tokenizers() + ")",
             "another one");
    keys_.add("tokenizer.ggml.model", std::string("gpt2"));
    keys_.add("tokenizer.ggml.pre", *name);
    std::vector<std::string> lines;
    for (const auto& [left, right] : merges) lines.push_back(left + ' ' + right);
    keys_.add("tokenizer.ggml.merges", lines);
  }

  /// SentencePiece merges by the score of what comes of it; ranks tell as much.
  void add_characters(const Json& model) {
    constexpr float never = -1e9F;
    std::vector<float> scores(tokens_.size(), never);
    float rank = 0;
    for (const auto& [left, right] : merges_of(model)) {
      const auto id = ids_.find(left + right);
      if (id == ids_.end()) refuse("merges into tokens", "one into \"" + left + right + '"');
      float& score = scores[static_cast<std::size_t>(id->second)];
      if (score == never) score = -rank;
      ++rank;
    }
    const Json& normalizer = member(json_, "normalizer");
    const bool prepends =
        has_step(normalizer, "Prepend") ||
        (has_step(member(json_, "pre_tokenizer"), "Metaspace") &&
         text_of(member(member(json_, "pre_tokenizer"), "prepend_scheme")) != "never");
    keys_.add("tokenizer.ggml.model", std::string("llama"));
    keys_.add("tokenizer.ggml.pre", std::string("default"));
    keys_.add("tokenizer.ggml.scores", scores);
    keys_.add("tokenizer.ggml.add_space_prefix", prepends);
  }

  void add_specials() {
    const Json settings = json_beside(file_, "tokenizer_config.json");
    const Template around = template_of(member(json_, "post_processor"));
    const auto stated = [&](const char* name) {
      const Json& token = member(settings, name);
      return token.is_object() ? text_of(member(token, "content")) : text_of(token);
    };
    const std::string begin = stated("bos_token"), end = stated("eos_token");
    add_id("bos", begin.empty() ? around.before : begin);
    add_id("eos", end.empty() ? around.after : end);
    add_id("padding", stated("pad_token"));
    add_id("unknown", stated("unk_token"));
    keys_.add("tokenizer.ggml.add_bos_token", !around.before.empty());
    keys_.add("tokenizer.ggml.add_eos_token", !around.after.empty());
    if (const std::string chat = chat_template(settings); !chat.empty())
      keys_.add("tokenizer.chat_template", chat);
  }

  void add_id(const std::string& name, const std::string& token) {
    const auto id = ids_.find(token);
    if (id != ids_.end())
      keys_.add("tokenizer.ggml." + name + "_token_id", static_cast<std::uint32_t>(id->second));
  }

  std::string chat_template(const Json& settings) const {
    const fs::path file = file_.parent_path() / "chat_template.jinja";
    std::error_code unreadable;
    if (fs::exists(file, unreadable)) return read_file(file);
    const Json& stated = member(settings, "chat_template");
    if (!stated.is_array()) return text_of(stated);
    for (const Json& entry : stated)
      if (text_of(member(entry, "name")) == "default") return text_of(member(entry, "template"));
    return "";
  }

  const fs::path& file_;
  std::int64_t vocab_;
  const std::string& operation_;
  GgufKeyWriter& keys_;
  Json json_;
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> types_;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace

void add_tokenizer_keys(const fs::path& tokenizer, std::int64_t vocab, const std::string& operation,
                        GgufKeyWriter& keys) {
  TokenizerKeys(tokenizer, vocab, operation, keys).add();
}

void add_no_tokenizer_keys(GgufKeyWriter& keys) {
  keys.add("tokenizer.ggml.model", std::string("none"));
}

}  // namespace accrue::models
