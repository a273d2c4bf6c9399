#include "data/tokenizer/pipeline/read_bpe.h"

#include <array>
#include <cstdio>
#include <utility>

#include "accrue/core/error.h"
#include "data/tokenizer/unicode/byte_characters.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;

/// Larger vocabularies would take gigabytes; the largest known have 262,144 tokens.
constexpr std::int64_t most_tokens = 1 << 24;

/// The file's vocabulary: texts in the form of the file.
IdsByText read_vocabulary(const JsonPart& model, std::vector<std::string>& texts) {
  IdsByText ids;
  for (const auto& [text, id] : model.object("vocab").items()) {
    if (!id.is_number_integer() || id < 0 || id >= most_tokens)
      throw usage_error(model.what(), "ids from 0 to " + std::to_string(most_tokens - 1),
                        "\"" + text + "\": " + id.dump(), whole_tokenizer_file);
    const auto number = id.get<TokenId>();
    const auto place = static_cast<std::size_t>(number);
    if (place >= texts.size()) texts.resize(place + 1);
    if (!texts[place].empty()) refuse_shared_id(model.what(), number, texts[place], text);
    texts[place] = text;
    ids.emplace(text, number);
  }
  if (ids.empty()) model.refuse("vocab", "tokens");
  return ids;
}

/// "a b", or ["a", "b"] as in files of 2024 and later.
std::pair<std::string, std::string> halves_of(const Json& merge, const JsonPart& model) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0], merge[1]};
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    const bool is_one =
        space != std::string::npos && text.find(' ', space + 1) == std::string::npos;
    if (is_one) return {text.substr(0, space), text.substr(space + 1)};
  }
  throw usage_error(model.what(), "two tokens in each of model.merges",
                    merge.dump(-1, ' ', true, Json::error_handler_t::replace),
                    whole_tokenizer_file);
}

std::vector<Merge> read_merges(const JsonPart& model, const IdsByText& ids) {
  const auto id_of = [&](const std::string& text) {
    if (const auto found = ids.find(text); found != ids.end()) return found->second;
    throw usage_error(model.what(), "merges of tokens that model.vocab has", "\"" + text + "\"",
                      whole_tokenizer_file);
  };
  std::vector<Merge> merges;
  for (const Json& stated : model.list("merges")) {
    const auto [left, right] = halves_of(stated, model);
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  return merges;
}

/// The tokens "<0x00>" to "<0xFF>" that exist.
std::array<TokenId, 256> named_bytes(const IdsByText& ids) {
  std::array<TokenId, 256> bytes{};
  for (unsigned byte = 0; byte < bytes.size(); ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
    const auto found = ids.find(std::string_view(name.data()));
    bytes[byte] = found == ids.end() ? -1 : found->second;
  }
  return bytes;
}

/// The vocabulary by the bytes that its texts represent; words never match a text without bytes.
IdsByText by_bytes(const IdsByText& ids) {
  IdsByText bytes;
  for (const auto& [text, id] : ids)
    if (auto shown = bytes_shown_by(text)) bytes.emplace(std::move(*shown), id);
  return bytes;
}

void refuse_what_is_unknown(const JsonPart& model) {
  if (model.type() != "BPE")
    throw usage_error(model.what(), "a model of type BPE", "\"" + model.type() + "\"",
                      "token files made with that tokenizer (data.format = \"tokens\")");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.optional_text(affix).value_or("").empty()) model.refuse(affix, "none");
  const Json& dropout = model.value("dropout");
  if (!dropout.is_null() && dropout != 0) model.refuse("dropout", "none");
}

}  // namespace

void refuse_shared_id(const std::string& what, TokenId id, const std::string& first,
                      const std::string& second) {
  throw usage_error(what, "an id of its own for each token",
                    "id " + std::to_string(id) + " of \"" + first + "\" and \"" + second + "\"",
                    whole_tokenizer_file);
}

ReadBpe read_bpe(const JsonPart& model, bool of_bytes) {
  refuse_what_is_unknown(model);
  ReadBpe read;
  const IdsByText ids = read_vocabulary(model, read.texts);
  read.parts.merges = read_merges(model, ids);
  read.parts.of_bytes = of_bytes;
  read.parts.ignores_merges = model.flag("ignore_merges", false);
  read.parts.fuses_unknown = model.flag("fuse_unk", false);
  if (const auto unknown = model.optional_text("unk_token")) {
    if (const auto found = ids.find(*unknown); found != ids.end())
      read.parts.unknown = found->second;
    else
      read.parts.missing_unknown = unknown;
  }
  if (model.flag("byte_fallback", false)) read.parts.bytes = named_bytes(ids);
  read.parts.ids = of_bytes ? by_bytes(ids) : ids;
  return read;
}

}  // namespace accrue::data
