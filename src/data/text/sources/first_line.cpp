#include "data/text/sources/first_line.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "data/chat/format/chat_templates.h"
#include "data/chat/lines/chat_line.h"
#include "data/chat/lines/foreign_line.h"
#include "data/text/sources/line_reader.h"
#include "data/text/sources/pair_sample.h"

namespace accrue::data {
namespace {

std::optional<std::string> first_line_of(const FilePool& files, const std::string& what) {
  for (std::size_t file = 0; file < files.count(); ++file) {
    LineReader reader(files, file, what);
    if (const auto line = reader.next()) return std::string(line->text);
  }
  return std::nullopt;
}

}  // namespace

bool holds_conversations(const FilePool& files, bool as_pairs, const Tokenizer* tokenizer,
                         const std::string& what) {
  const std::optional<std::string> text = first_line_of(files, what);
  if (!text) return false;
  if (as_pairs) return is_pair_of_conversations(*text);
  const auto line = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (is_chat_line(line) || is_sharegpt_line(line)) return true;
  return is_alpaca_line(line) && tokenizer != nullptr &&
         !read_chat_templates(tokenizer->file(), what).texts.empty();
}

}  // namespace accrue::data
