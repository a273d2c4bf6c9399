#include "accrue/data/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "core/checksum.h"
#include "core/utf8.h"
#include "data/tokenizer/folder/folder_tokens.h"
#include "data/tokenizer/folder/tokenizer_settings.h"
#include "data/tokenizer/pipeline/added_tokens.h"
#include "data/tokenizer/pipeline/decoder.h"
#include "data/tokenizer/pipeline/normalizer.h"
#include "data/tokenizer/pipeline/pre_tokenizer.h"
#include "data/tokenizer/pipeline/read_bpe.h"
#include "data/tokenizer/pipeline/template_tokens.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;
/// This library's own type is hidden within Tokenizer by its Decoder.
using PieceDecoder = Decoder;
using SpecialTexts = std::vector<std::pair<std::string, std::string>>;

AddedToken read_added_token(const Json& stated, const std::string& what, bool splits_special) {
  constexpr std::int64_t most_ids = 1 << 25;
  const JsonPart part(stated, what, "added_tokens");
  const bool is_special = part.flag("special", false);
  return {.text = part.text("content"),
          .id = static_cast<TokenId>(part.integer("id", most_ids)),
          .is_special = is_special,
          .is_normalized = part.flag("normalized", true),
          .is_word = part.flag("single_word", false),
          .strips_left = part.flag("lstrip", false),
          .strips_right = part.flag("rstrip", false),
          .is_left_as_text = splits_special && is_special};
}

std::size_t parts_within(const Json& stated) {
  std::size_t count = stated.is_object() && stated.contains("type") ? 1 : 0;
  if (stated.is_structured())
    for (const Json& inner : stated) count += parts_within(inner);
  return count;
}

/// Each part processes every text.
void expect_few_parts(const Json& file, const std::string& operation) {
  constexpr std::size_t most = 256;
  for (const char* const name : {"normalizer", "pre_tokenizer", "decoder", "post_processor"})
    if (file.contains(name) && parts_within(file.at(name)) > most)
      throw usage_error(operation, "at most " + std::to_string(most) + " parts of " + name,
                        std::to_string(parts_within(file.at(name))), whole_tokenizer_file);
}

/// A later text of a name replaces an earlier one.
SpecialTexts special_texts_of(const FolderTokens& folder) {
  SpecialTexts texts;
  const auto set = [&texts](const std::string& name, const std::string& text) {
    const auto known = std::ranges::find(texts, name, &SpecialTexts::value_type::first);
    if (known == texts.end())
      texts.emplace_back(name, text);
    else
      known->second = text;
  };
  for (const auto& [key, value] : folder.settings.items())
    if (key.ends_with("_token"))
      if (const std::optional<std::string> stated = text_of_token(value)) set(key, *stated);
  const auto extra = folder.settings.find("extra_special_tokens");
  if (extra != folder.settings.end() && extra->is_object())
    for (const auto& [key, value] : extra->items())
      if (const std::optional<std::string> stated = text_of_token(value)) set(key, *stated);
  // special_tokens_map.json may have another text for a name of "extra_special_tokens".
  for (const auto& [name, stated] :
       {std::pair{"bos_token", &folder.bos}, std::pair{"eos_token", &folder.eos},
        std::pair{"pad_token", &folder.pad}, std::pair{"unk_token", &folder.unk}})
    if (stated->has_value()) set(name, **stated);
  return texts;
}

}  // namespace

struct Tokenizer::Parts {
  std::filesystem::path file;
  std::string fingerprint;
  std::unique_ptr<const Normalizer> normalizer;
  std::unique_ptr<const PreTokenizer> cutter;
  std::unique_ptr<const Bpe> bpe;
  std::unique_ptr<const PieceDecoder> decoder;
  AddedTokens found_first;  ///< in the unchanged text
  AddedTokens found_normalized;
  Around around;
  std::optional<std::int64_t> end_of_text;
  SpecialTexts special_texts;
  /// By id, as they are decoded: normalized if they are found in normalized text; empty if there is
  /// no such token.
  std::vector<std::string> texts;
  std::vector<bool> is_special;  ///< by id
  IdsByText ids;                 ///< by text

  void take_texts_of_vocabulary();
  void take(const AddedToken& added);
  std::optional<std::int64_t> named_end(const FolderTokens& folder) const;
};

void Tokenizer::Parts::take_texts_of_vocabulary() {
  is_special.resize(texts.size());
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty()) ids.emplace(texts[id], static_cast<TokenId>(id));
}

/// If the vocabulary's ids have gaps, an added token may have that of another text, which keeps it,
/// but is no longer decoded.
void Tokenizer::Parts::take(const AddedToken& added) {
  const auto id = static_cast<std::size_t>(added.id);
  if (id >= texts.size()) texts.resize(id + 1);
  texts[id] = added.text;
  is_special.resize(texts.size());
  is_special[id] = added.is_special;
  ids.insert_or_assign(added.text, added.id);
}

/// The end token of config.json or generation_config.json, which name ids: models that were never
/// trained have that of their class, so it only counts if it is a special token.
std::optional<std::int64_t> Tokenizer::Parts::named_end(const FolderTokens& folder) const {
  for (const std::int64_t id : folder.end_ids)
    if (id < std::ssize(texts) && is_special[static_cast<std::size_t>(id)]) return id;
  return std::nullopt;
}

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::filesystem::path& file,
                                                 const std::string& what) {
  const std::string operation = what + ": " + file.string();
  const FolderTokens folder = read_folder_tokens(file, what);
  expect_few_parts(folder.tokenizer, operation);
  const JsonPart root(folder.tokenizer, operation, "the file");

  auto parts = std::make_unique<Parts>();
  parts->file = file;
  parts->special_texts = special_texts_of(folder);
  parts->normalizer = read_normalizer(root.value("normalizer"), operation);
  ReadPreTokenizer cutter = read_pre_tokenizer(root.value("pre_tokenizer"), operation);
  parts->cutter = std::move(cutter.cutter);
  ReadBpe bpe = read_bpe({root.object("model"), operation, "model"}, cutter.of_bytes);
  parts->bpe = std::make_unique<Bpe>(std::move(bpe.parts));
  parts->decoder = read_decoder(root.value("decoder"), operation);
  parts->around = read_template(root.value("post_processor"), operation);
  parts->texts = std::move(bpe.texts);
  parts->take_texts_of_vocabulary();

  std::vector<AddedToken> first, normalized;
  for (const Json& stated : root.list("added_tokens")) {
    AddedToken token = read_added_token(stated, operation, folder.splits_special_tokens);
    parts->take(token);
    if (token.is_normalized && parts->normalizer) {
      TextGrowth growth(token.text.size());
      parts->normalizer->apply(token.text, PrecedingText::nothing, growth);
    }
    (token.is_normalized ? normalized : first).push_back(std::move(token));
  }
  for (const AddedToken& token : normalized)
    parts->texts[static_cast<std::size_t>(token.id)] = token.text;
  parts->found_first = AddedTokens(std::move(first));
  parts->found_normalized = AddedTokens(std::move(normalized));
  for (const auto* const side : {&parts->around.before, &parts->around.after})
    for (const std::int64_t id : *side)
      if (id >= std::ssize(parts->texts))
        throw usage_error(operation, "a post_processor of tokens that there are",
                          "id " + std::to_string(id), whole_tokenizer_file);
  parts->fingerprint = folder.fingerprint;
  if (folder.eos) {
    if (const auto found = parts->ids.find(*folder.eos); found != parts->ids.end())
      parts->end_of_text = found->second;
    parts->fingerprint = checksum_of(parts->fingerprint + *folder.eos);
  } else if (const auto end = parts->named_end(folder)) {
    parts->end_of_text = end;
    parts->fingerprint = checksum_of(parts->fingerprint + "id " + std::to_string(*end));
  }
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
}

std::int64_t Tokenizer::vocab() const { return std::ssize(parts_->texts); }
const std::string& Tokenizer::fingerprint() const { return parts_->fingerprint; }
const std::filesystem::path& Tokenizer::file() const { return parts_->file; }
std::optional<std::int64_t> Tokenizer::end_of_text() const { return parts_->end_of_text; }
const Tokenizer::Around& Tokenizer::around() const { return parts_->around; }
const SpecialTexts& Tokenizer::special_texts() const { return parts_->special_texts; }

std::optional<std::int64_t> Tokenizer::id_of(std::string_view token) const {
  const auto found = parts_->ids.find(token);
  if (found == parts_->ids.end()) return std::nullopt;
  return found->second;
}

bool Tokenizer::has(std::int64_t id) const {
  return id >= 0 && id < vocab() && !parts_->texts[static_cast<std::size_t>(id)].empty();
}

std::vector<std::int64_t> Tokenizer::special_ids() const {
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; id < vocab(); ++id)
    if (parts_->is_special[static_cast<std::size_t>(id)]) ids.push_back(id);
  return ids;
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool with_template) const {
  std::vector<std::int64_t> ids;
  if (with_template) ids.assign(parts_->around.before.begin(), parts_->around.before.end());
  Encoder(*this).encode(text, ids);
  if (with_template)
    ids.insert(ids.end(), parts_->around.after.begin(), parts_->around.after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special) const {
  std::vector<std::string> pieces;
  std::size_t bytes = 0;
  for (const std::int64_t id : ids) {
    if (!has(id))
      throw usage_error("decode", "ids of " + parts_->file.string(), std::to_string(id),
                        "the tokenizer that made them");
    const auto place = static_cast<std::size_t>(id);
    if (skip_special && parts_->is_special[place]) continue;
    pieces.push_back(parts_->texts[place]);
    bytes += pieces.back().size();
  }
  TextGrowth growth(bytes);
  parts_->decoder->apply(pieces, growth);
  return joined(pieces);
}

/// The steps of an encoder, each of which passes the rest to the next.
struct Tokenizer::Encoder::State {
  explicit State(const Parts& of) : parts(of), cache(*of.bpe) {}

  /// Takes the added tokens out of `text`; `rest` gets the text between them.
  template <class Rest>
  void around_added(const AddedTokens& added, std::string_view text, PrecedingText before,
                    Rest rest) {
    std::size_t end = 0;
    for (const AddedTokens::Found& found : added.find(text)) {
      if (end < found.extent.begin)
        rest(text.substr(end, found.extent.begin - end), end == 0 ? before : PrecedingText::token);
      ids->push_back(found.id);
      end = found.extent.end;
    }
    if (end < text.size()) rest(text.substr(end), end == 0 ? before : PrecedingText::token);
  }

  void encode_words(std::string_view text, PrecedingText before) {
    const auto encode_word = [this](std::string_view word) {
      word_ids.clear();
      cache.encode(word, word_ids);
      ids->insert(ids->end(), word_ids.begin(), word_ids.end());
    };
    if (parts.cutter)
      parts.cutter->cut(text, before, growth, encode_word);
    else
      encode_word(text);
  }

  void encode_part(std::string_view text, PrecedingText before) {
    if (!parts.normalizer) {
      encode_normalized(text, before);
      return;
    }
    std::string normalized(text);
    parts.normalizer->apply(normalized, before, growth);
    encode_normalized(normalized, before);
  }

  void encode_normalized(std::string_view text, PrecedingText before) {
    around_added(parts.found_normalized, text, before,
                 [&](std::string_view part, PrecedingText own) { encode_words(part, own); });
  }

  const Parts& parts;
  WordCache cache;
  std::vector<TokenId> word_ids;
  std::vector<std::int64_t>* ids = nullptr;
  TextGrowth growth{0};  ///< of the text that is encoded
};

Tokenizer::Encoder::Encoder(const Tokenizer& tokenizer)
    : state_(std::make_unique<State>(*tokenizer.parts_)) {}
Tokenizer::Encoder::~Encoder() = default;
Tokenizer::Encoder::Encoder(Encoder&&) noexcept = default;

void Tokenizer::Encoder::encode(std::string_view text, std::vector<std::int64_t>& ids,
                                bool goes_on) {
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid != text.size())
    throw usage_error("tokenizer", "text in UTF-8",
                      "another byte at place " + std::to_string(valid) + " of the text",
                      "the text in UTF-8 (iconv -t UTF-8), or data.tokenizer = \"bytes\"");
  state_->ids = &ids;
  state_->growth = TextGrowth(text.size());
  const PrecedingText before = goes_on ? PrecedingText::text : PrecedingText::nothing;
  state_->around_added(
      state_->parts.found_first, text, before,
      [&](std::string_view part, PrecedingText own) { state_->encode_part(part, own); });
}

std::string Tokenizer::Decoder::rest(bool is_last) {
  std::string text = tokenizer_.decode(ids_, skip_special_);
  // An incomplete character is decoded as U+FFFD, which the next token may complete.
  if (!is_last && text.ends_with(replacement_character)) return {};
  if (text.size() <= said_.size()) return {};
  std::string piece = text.substr(said_.size());
  said_ = std::move(text);
  return piece;
}

/// The next token may depend on the last character before it (a removed first space): keeping all
/// tokens would make a long text take quadratic time.
void Tokenizer::Decoder::keep_last_only() {
  constexpr std::size_t most_of_a_character = 4;
  for (std::size_t count = 1; count <= std::min(most_of_a_character, ids_.size()); ++count) {
    const auto last = std::span(ids_).last(count);
    std::string text = tokenizer_.decode(last, skip_special_);
    if (text.ends_with(replacement_character)) continue;  // a part of a character
    ids_.erase(ids_.begin(), ids_.end() - static_cast<std::ptrdiff_t>(count));
    said_ = std::move(text);
    return;
  }
}

std::string Tokenizer::Decoder::add(std::int64_t id) {
  ids_.push_back(id);
  std::string piece = rest(false);
  if (!piece.empty()) keep_last_only();
  return piece;
}

std::string Tokenizer::Decoder::end() {
  std::string piece = rest(true);
  ids_.clear();
  said_.clear();
  return piece;
}

}  // namespace accrue::data
