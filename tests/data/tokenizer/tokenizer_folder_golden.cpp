// accrue's reading of tokenizers' folders, for tokenizer_folder_golden.py:
// tokenizer_folder_golden FOLDER...: for each folder, whose texts.json lists texts, a line of JSON:
// the special tokens, the ids of each text with and without the template, and the texts of these
// without special tokens; or the reason for its refusal.

#include <iostream>
#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "accrue/data/tokenizer.h"
#include "core/atomic_file.h"
#include "data/tokenizer/folder/folder_tokens.h"

namespace {

using accrue::data::FolderTokens;
using accrue::data::Tokenizer;
using nlohmann::json;

json token_in_json(const std::optional<std::string>& text, const Tokenizer& tokenizer) {
  if (!text) return nullptr;
  const auto id = tokenizer.id_of(*text);
  return {*text, id ? json(*id) : json()};
}

json encoded(const Tokenizer& tokenizer, const std::string& text) {
  try {
    const std::vector<std::int64_t> ids = tokenizer.encode(text),
                                    all = tokenizer.encode(text, true);
    return {{"ids", ids}, {"with_template", all}, {"without_special", tokenizer.decode(all, true)}};
  } catch (const accrue::Error& error) {
    return {{"refused", error.what()}};
  }
}

json of_folder(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "tokenizer.json";
  const FolderTokens read = accrue::data::read_folder_tokens(file, "a folder");
  const auto tokenizer = Tokenizer::open(file, "a folder");
  json made{{"bos", token_in_json(read.bos, *tokenizer)},
            {"eos", token_in_json(read.eos, *tokenizer)},
            {"pad", token_in_json(read.pad, *tokenizer)},
            {"unk", token_in_json(read.unk, *tokenizer)},
            {"end", tokenizer->end_of_text() ? json(*tokenizer->end_of_text()) : json()},
            {"added", json::array()},
            {"texts", json::array()}};
  for (const json& token : read.tokenizer.at("added_tokens"))
    made["added"].push_back({token.at("id"), token.at("content"), token.at("single_word"),
                             token.at("lstrip"), token.at("rstrip"), token.at("normalized")});
  for (const json& text : json::parse(accrue::read_file(folder / "texts.json")))
    made["texts"].push_back(encoded(*tokenizer, text.get<std::string>()));
  return made;
}

}  // namespace

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    json line;
    try {
      line = of_folder(arguments[i]);
    } catch (const accrue::Error& error) {
      line = {{"refused", error.what()}};
    }
    std::cout << line.dump() << '\n';
  }
}
