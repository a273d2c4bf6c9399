// A tokenizer as the keys of a GGUF file.
#include "models/files/gguf/tokenizer/gguf_tokenizer_keys.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "data/chat/format/chat_templates.h"
#include "data/json/json_part.h"
#include "data/tokenizer/folder/folder_tokens.h"
#include "data/tokenizer/pipeline/part_forms.h"
#include "data/tokenizer/pipeline/read_bpe.h"
#include "data/tokenizer/pipeline/template_tokens.h"
#include "models/files/gguf/tokenizer/gguf_pre_tokenizers.h"
#include "models/files/gguf/tokenizer/gguf_scores.h"
#include "models/files/gguf/tokenizer/gguf_spaces.h"
#include "models/files/gguf/tokenizer/gguf_token_types.h"
#include "models/files/gguf/tokenizer/json_members.h"

namespace accrue::models {
namespace {

using nlohmann::json;

/// Texts that llama.cpp treats as ends wherever they are tokens.
bool ends_by_its_text(std::string_view token) {
  constexpr std::array<std::string_view, 8> known{"<|eot_id|>",    "<|im_end|>",     "<|end|>",
                                                  "<end_of_turn>", "<|endoftext|>",  "<|eom_id|>",
                                                  "<EOT>",         "<|end_of_text|>"};
  return std::find(known.begin(), known.end(), token) != known.end();
}

/// The name of a chat template in a file: letters and digits, as in the package gguf.
std::string name_in_key(std::string_view name) {
  std::string made(name);
  for (char& letter : made)
    if (std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
            .find(letter) == std::string_view::npos)
      letter = '_';
  return made;
}

class TokenKeys {
 public:
  TokenKeys(const GgufTokens& wanted, std::int64_t vocab, const std::string& operation,
            GgufKeyWriter& keys)
      : wanted_(wanted),
        vocab_(vocab),
        operation_(operation + ", tokenizer " + wanted.tokenizer.string()),
        keys_(keys),
        folder_(data::read_folder_tokens(wanted.tokenizer, operation)) {}

  GgufDifferences add() {
    if (text_in(part("model"), "type") != "BPE") refuse("a tokenizer.json of BPE", "another one");
    if (folder_.splits_special_tokens)
      refuse("special tokens that are found in text", "split_special_tokens");
    const bool of_bytes = shows_bytes();
    bpe_ = data::read_bpe(data::JsonPart(part("model"), operation_, "model"), of_bytes);
    place_tokens(of_bytes);
    if (of_bytes)
      add_bytes();
    else
      add_characters();
    keys_.add("tokenizer.ggml.tokens", tokens_);
    std::vector<std::int32_t> types;
    for (const GgufTokenType type : types_) types.push_back(static_cast<std::int32_t>(type));
    keys_.add("tokenizer.ggml.token_type", types);
    add_specials();
    add_chat_templates();
    return std::move(differences_);
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, const std::string& received) const {
    throw usage_error(operation_, expected, received,
                      "--format hf, which takes the tokenizer's files along as they are");
  }

  /// For some texts llama.cpp makes other ids.
  void differ(const std::string& what, const std::string& consequence) {
    if (!wanted_.nearest)
      throw usage_error(operation_, "a tokenizer that llama.cpp has", what,
                        "--nearest-tokenizer, with which " + consequence +
                            " in llama.cpp; or --format hf, which takes the tokenizer's files "
                            "along as they are");
    differences_.push_back(consequence + " in llama.cpp, which has not " + what);
  }

  const json& part(const char* name) const { return member(folder_.tokenizer, name); }

  bool shows_bytes() const {
    const std::vector<json> steps = steps_within(part("pre_tokenizer"), "pretokenizers");
    return std::any_of(steps.begin(), steps.end(),
                       [](const json& step) { return text_in(step, "type") == "ByteLevel"; });
  }

  void place(const std::string& token, std::int64_t id, GgufTokenType type) {
    if (id < 0 || id >= vocab_)
      refuse("ids below " + std::to_string(vocab_) + ", as the model has tokens",
             '"' + token + "\" with id " + std::to_string(id));
    const auto at = static_cast<std::size_t>(id);
    if (!tokens_[at].empty() && tokens_[at] != token)
      data::refuse_shared_id(operation_, static_cast<data::TokenId>(id), tokens_[at], token);
    if (const auto [known, is_new] = ids_.emplace(token, id); known->second != id)
      refuse("each token once", '"' + token + "\" with ids " + std::to_string(known->second) +
                                    " and " + std::to_string(id));
    tokens_[at] = token;
    types_[at] = type;
  }

  void place_tokens(bool of_bytes) {
    tokens_.resize(static_cast<std::size_t>(vocab_));
    types_.assign(tokens_.size(), GgufTokenType::unused);
    for (std::size_t id = 0; id < bpe_.texts.size(); ++id) {
      const std::string& token = bpe_.texts[id];
      const bool is_byte = !of_bytes && is_byte_token(token);
      if (!token.empty())
        place(token, static_cast<std::int64_t>(id),
              is_byte ? GgufTokenType::byte : GgufTokenType::normal);
    }
    for (const json& added : part("added_tokens"))
      place(
          text_in(added, "content"), id_in(added),
          flag_in(added, "special", false) ? GgufTokenType::control : GgufTokenType::user_defined);
    if (!of_bytes && bpe_.parts.unknown)
      types_[static_cast<std::size_t>(*bpe_.parts.unknown)] = GgufTokenType::unknown;
    name_unused();
  }

  std::int64_t id_in(const json& added) const {
    const json& id = member(added, "id");
    return id.is_number_integer() ? id.get<std::int64_t>() : -1;
  }

  /// Rows without a token get unique names: a file has each name once.
  void name_unused() {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (!tokens_[id].empty()) continue;
      std::string name = "[PAD" + std::to_string(id) + ']';
      while (ids_.contains(name)) name += '_';
      tokens_[id] = std::move(name);
    }
  }

  /// llama.cpp finds added tokens in the unchanged text, and does not include white space.
  void check_added_tokens(const GgufSpaces& spaces) const {
    for (const json& added : part("added_tokens")) {
      const std::string token = text_in(added, "content");
      for (const char* flag : {"lstrip", "rstrip", "single_word"})
        if (flag_in(added, flag, false))
          refuse("added tokens that are found wherever their text is",
                 '"' + token + "\" with " + flag);
      const bool is_normalized = flag_in(added, "normalized", true);
      const bool has_space =
          token.find(' ') != token.npos || token.find(data::kMarkedSpace) != token.npos;
      if (is_normalized && (spaces.normalizer_prepends || (spaces.normalizer_shows && has_space)))
        refuse("added tokens that are found in a text as it is",
               '"' + token + "\" with normalized");
    }
  }

  void add_bytes() {
    for (const json& step : steps_within(part("normalizer"), "normalizers")) {
      if (text_in(step, "type") != "NFC")
        refuse("no normalizer beside byte-level BPE, as llama.cpp has none",
               quoted_part("normalizer", step));
      differ(quoted_part("normalizer", step), "text that is not in NFC becomes other tokens");
    }
    check_added_tokens({});
    if ((bpe_.parts.unknown || bpe_.parts.missing_unknown) && !has_all_bytes())
      refuse("a token of each byte", "some without, for which an unk_token stands");
    const GgufPreTokenizer cut = cut_of_words();
    if (!cut.other_words.empty())
      differ("its pre_tokenizer, \"" + std::string(cut.name) + "\" to llama.cpp",
             std::string(cut.other_words) + " become other tokens");
    keys_.add("tokenizer.ggml.model", std::string("gpt2"));
    keys_.add("tokenizer.ggml.pre", std::string(cut.name));
    keys_.add("tokenizer.ggml.merges", merge_lines());
  }

  bool has_all_bytes() const {
    constexpr int bytes = 256;
    for (int byte = 0; byte < bytes; ++byte)
      if (!bpe_.parts.ids.contains(std::string_view(std::string(1, static_cast<char>(byte)))))
        return false;
    return true;
  }

  GgufPreTokenizer cut_of_words() const {
    const json& stated = part("pre_tokenizer");
    std::vector<GgufPreTokenizer> alike = gguf_pre_tokenizers_like(stated);
    // Without merges the way text is cut does not matter.
    if (alike.empty() && bpe_.parts.merges.empty() && only_cuts_bytes(stated))
      alike.push_back(find_gguf_pre_tokenizer("gpt-2").value());
    if (alike.empty())
      refuse("a pre-tokenizer that llama.cpp has (" + listed_gguf_pre_tokenizers() + ")",
             quoted_part("pre_tokenizer", stated));
    const bool ignores = bpe_.parts.ignores_merges;
    for (const GgufPreTokenizer& cut : alike)
      if (cut.ignores_merges == ignores) return cut;
    if (const std::string apart = token_out_of_reach(bpe_, types_); !apart.empty())
      refuse("ignore_merges = " + std::string(ignores ? "false" : "true") +
                 ", as llama.cpp has it with this pre_tokenizer",
             std::string(ignores ? "true" : "false") + ", and the token " + apart +
                 ", which merges do not make");
    return alike.front();
  }

  /// If a pair is stated twice llama.cpp uses the first, and tokenizers the last.
  std::vector<std::string> merge_lines() const {
    std::vector<std::string> lines;
    std::unordered_set<std::string> known;
    const auto text = [&](data::TokenId id) { return bpe_.texts[static_cast<std::size_t>(id)]; };
    for (auto merge = bpe_.parts.merges.rbegin(); merge != bpe_.parts.merges.rend(); ++merge) {
      std::string line = text(merge->left) + ' ' + text(merge->right);
      if (line.find(' ') != line.rfind(' ')) refuse("merges without spaces", '"' + line + '"');
      if (known.insert(line).second) lines.push_back(std::move(line));
    }
    std::reverse(lines.begin(), lines.end());
    return lines;
  }

  void add_characters() {
    std::vector<std::string_view> normal;
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (types_[id] == GgufTokenType::normal) normal.emplace_back(tokens_[id]);
    const GgufSpaces spaces = spaces_of(part("normalizer"), part("pre_tokenizer"), normal);
    if (!spaces.obstacle.empty())
      refuse("spaces shown as \"" + std::string(data::kMarkedSpace) +
                 "\", one or none before each piece of text, and nothing else before merges",
             spaces.obstacle);
    check_added_tokens(spaces);
    if (!spaces.other_texts.empty())
      differ(quoted_part("pre_tokenizer", part("pre_tokenizer")), spaces.other_texts);
    const GgufScores scores = scores_of_merges(bpe_, tokens_, types_);
    if (!scores.obstacle.empty())
      refuse("merges that the scores of llama.cpp's tokenizer can state", scores.obstacle);
    keys_.add("tokenizer.ggml.model", std::string("llama"));
    keys_.add("tokenizer.ggml.pre", std::string("default"));
    keys_.add("tokenizer.ggml.scores", scores.scores);
    keys_.add("tokenizer.ggml.add_space_prefix", spaces.prepends);
  }

  std::optional<std::int64_t> id_of(const std::optional<std::string>& token) const {
    if (!token) return std::nullopt;
    const auto found = ids_.find(*token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  /// The token that a template puts on one side of a text, which must be `named`.
  std::optional<std::int64_t> put_by_template(const std::vector<std::int64_t>& side,
                                              const std::optional<std::int64_t>& named,
                                              const char* name) const {
    if (side.empty()) return std::nullopt;
    if (side.size() == 1 && (!named || *named == side.front()) && side.front() < vocab_)
      return side.front();
    std::string tokens;
    for (const std::int64_t id : side) tokens += (tokens.empty() ? "" : ", ") + std::to_string(id);
    refuse("a post_processor that puts the " + std::string(name) + " on its side of a text",
           "one that puts the tokens " + tokens + " there");
  }

  void add_specials() {
    const data::Tokenizer::Around around = data::read_template(part("post_processor"), operation_);
    std::optional<std::int64_t> begin = id_of(folder_.bos), end = id_of(folder_.eos);
    const auto before = put_by_template(around.before, begin, "bos_token"),
               after = put_by_template(around.after, end, "eos_token");
    if (!begin) begin = before;
    if (!end) end = after;
    if (begin) add_id("bos", *begin);
    add_ends(end);
    if (const auto id = id_of(folder_.pad)) add_id("padding", *id);
    if (const auto id = id_of(folder_.unk)) add_id("unknown", *id);
    keys_.add("tokenizer.ggml.add_bos_token", before.has_value());
    keys_.add("tokenizer.ggml.add_eos_token", after.has_value());
  }

  void add_id(const std::string& name, std::int64_t id) {
    keys_.add("tokenizer.ggml." + name + "_token_id", static_cast<std::uint32_t>(id));
  }

  /// A file has three keys for tokens that end a text; some end one by their texts, too. The
  /// tokens are those before which `accrue sample` ends a text; without any, the folder's.
  void add_ends(std::optional<std::int64_t> end) {
    const std::vector<std::int64_t>& stated =
        wanted_.end_tokens.empty() ? folder_.end_ids : wanted_.end_tokens;
    std::vector<std::int64_t> others;
    for (const std::int64_t id : stated) {
      if (id < 0 || id >= vocab_) continue;
      if (!end) end = id;
      if (id != *end && std::find(others.begin(), others.end(), id) == others.end())
        others.push_back(id);
    }
    if (!end) end = row_without_token();
    if (end) add_id("eos", *end);
    std::stable_partition(others.begin(), others.end(), [&](std::int64_t id) {
      return !ends_by_its_text(tokens_[static_cast<std::size_t>(id)]);
    });
    constexpr std::array<const char*, 2> further{"eot", "eom"};
    for (std::size_t i = 0; i < others.size(); ++i) {
      const std::string& token = tokens_[static_cast<std::size_t>(others[i])];
      if (i < further.size())
        add_id(further[i], others[i]);
      else if (!ends_by_its_text(token))
        refuse("at most " + std::to_string(further.size() + 1) + " tokens that end a text",
               "one more, \"" + token + '"');
    }
  }

  /// If no key names an end, llama.cpp assumes token 11, or 2 with characters. A row that no text
  /// uses ends none.
  std::optional<std::int64_t> row_without_token() const {
    const auto unused = std::find(types_.begin(), types_.end(), GgufTokenType::unused);
    return unused == types_.end() ? std::nullopt : std::optional(unused - types_.begin());
  }

  void add_chat_templates() {
    const data::ChatTemplates templates = data::read_chat_templates(wanted_.tokenizer, operation_);
    std::set<std::string> names;
    for (const auto& [name, text] : templates.texts) {
      const std::string own = name_in_key(name);
      if (own == "default") {
        keys_.add("tokenizer.chat_template", text);
        continue;
      }
      if (own.empty() || !names.insert(own).second)
        refuse("chat templates whose names differ in their letters and digits",
               "\"" + name + "\" beside others");
      keys_.add("tokenizer.chat_template." + own, text);
    }
    if (!names.empty())
      keys_.add("tokenizer.chat_templates", std::vector<std::string>(names.begin(), names.end()));
  }

  const GgufTokens& wanted_;
  std::int64_t vocab_;
  std::string operation_;
  GgufKeyWriter& keys_;
  data::FolderTokens folder_;
  data::ReadBpe bpe_;
  std::vector<std::string> tokens_;
  std::vector<GgufTokenType> types_;
  std::unordered_map<std::string, std::int64_t> ids_;
  GgufDifferences differences_;
};

}  // namespace

GgufDifferences add_tokenizer_keys(const std::optional<GgufTokens>& tokens, std::int64_t vocab,
                                   const std::string& operation, GgufKeyWriter& keys) {
  if (tokens) return TokenKeys(*tokens, vocab, operation, keys).add();
  keys.add("tokenizer.ggml.model", std::string("none"));
  return {};
}

}  // namespace accrue::models
