#include "data/tokenizer/pipeline/template_tokens.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "data/json/json_part.h"
#include "data/tokenizer/pipeline/bpe.h"

namespace accrue::data {
namespace {

using Json = nlohmann::json;

/// Templates put a few tokens around a text; a file may name one of many ids any number of times.
constexpr std::size_t most_around = 4096;

/// The ids of a special token that a template names.
std::vector<std::int64_t> ids_named(const JsonPart& processing, const std::string& name) {
  const Json& tokens = processing.object("special_tokens");
  if (!tokens.contains(name))
    processing.refuse("special_tokens", "\"" + name + "\", which \"single\" names,");
  const JsonPart token(tokens.at(name), processing.what(), "post_processor.special_tokens");
  std::vector<std::int64_t> ids;
  for (const Json& id : token.list("ids")) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<TokenId>::max())
      token.refuse("ids", "ids");
    ids.push_back(id.get<std::int64_t>());
  }
  return ids;
}

Tokenizer::Around tokens_of(const JsonPart& processing) {
  Tokenizer::Around tokens;
  bool is_behind = false;
  for (const Json& stated : processing.list("single")) {
    const JsonPart piece(stated, processing.what(), "post_processor.single");
    if (!piece.value("Sequence").is_null()) {
      if (is_behind) processing.refuse("single", "the text once");
      is_behind = true;
      continue;
    }
    const JsonPart special(piece.object("SpecialToken"), processing.what(),
                           "post_processor.single.SpecialToken");
    std::vector<std::int64_t>& side = is_behind ? tokens.after : tokens.before;
    for (const std::int64_t id : ids_named(processing, special.text("id"))) side.push_back(id);
    if (side.size() > most_around)
      processing.refuse("single", "at most " + std::to_string(most_around) + " ids");
  }
  if (!is_behind) processing.refuse("single", "a place for the text");
  return tokens;
}

std::int64_t id_of_pair(const JsonPart& part, const char* key) {
  const Json& pair = part.list(key);
  const bool is_pair = pair.size() == 2 && pair[1].is_number_integer() && pair[1] >= 0 &&
                       pair[1] <= std::numeric_limits<TokenId>::max();
  if (!is_pair) part.refuse(key, "a text and its id");
  return pair[1].get<std::int64_t>();
}

/// RoBERTa's and BERT's: one token before a text and one after it.
Tokenizer::Around tokens_of_classifier(const JsonPart& part) {
  return {.before = {id_of_pair(part, "cls")}, .after = {id_of_pair(part, "sep")}};
}

}  // namespace

Tokenizer::Around read_template(const Json& stated, const std::string& what) {
  if (stated.is_null()) return {};
  const JsonPart part(stated, what, "post_processor");
  const std::string type = part.type();
  if (type == "ByteLevel") return {};
  if (type == "TemplateProcessing") return tokens_of(part);
  if (type == "RobertaProcessing" || type == "BertProcessing") return tokens_of_classifier(part);
  if (type != "Sequence") part.refuse_type();
  Tokenizer::Around all;
  for (const Json& processor : part.list("processors")) {
    const Tokenizer::Around one = read_template(processor, what);
    all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
    all.after.insert(all.after.end(), one.after.begin(), one.after.end());
    if (std::max(all.before.size(), all.after.size()) > most_around)
      part.refuse("processors", "at most " + std::to_string(most_around) + " ids");
  }
  return all;
}

}  // namespace accrue::data
